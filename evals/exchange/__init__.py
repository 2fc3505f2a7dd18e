"""Results in the formats of others: one file per format. The way back is ``evals.imports``.

What every format shares: which facts of a configuration may leave (``public``), what one suite as one player played it
consists of (``source``), its scores (``scores``), and how a ledger row travels inside another format (``carried``).

    every_eval_ever   aggregate JSON and one line per episode       inspect_log   inspect_ai's .eval, chats with pictures
    huggingface       a dataset's folder: Parquet with images       lm_eval       results and samples of lm-evaluation-harness

A new format is a module here, with a function that writes a ``Source`` into a folder and returns the files, and with
``LOSS``: what the format cannot hold. It is registered in ``FORMATS`` of ``cluster.commands.export`` and described in
``EXPORT_FORMATS`` of ``cluster.commands.arguments.exchanging``.
"""
