"""Any command as a run: a child process that lives no longer than the lease it works under.

keeper   a small process of its own, the child's parent: ends the child and its group when it is
         told to, when nobody is left to tell it, and when the lease can be trusted no longer
child    starts a keeper and its child, passes the output on, and knows how it ended
taking   waits for the run, and takes its lease
running  runs a child under the lease and writes what became of it
"""
