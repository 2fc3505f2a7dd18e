"""Files of other formats as rows of a ledger: those that raycade wrote row for row, those of others read by the suite's rules.

every_eval_ever, inspect_log   the formats          rows          rows that travelled inside a file
reading                        shapes of values     scores        theirs, beside those of their replies
transcripts                    episodes that another harness played
"""
