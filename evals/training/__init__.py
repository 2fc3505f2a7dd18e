"""The games of any suite as environments to train in.

``games`` says which games are played, and keeps those of the evaluation apart; ``reward`` what each reply is worth; ``play``
puts both around a session. The other modules are adapters, each for one library, which they import and nothing else does.
"""
