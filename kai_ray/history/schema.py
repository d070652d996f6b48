"""The tables of the history file, version by version.

A step is appended for each change and never altered: a file that was written by an older program is
brought forward step by step.
"""

from __future__ import annotations

#: Step i leads from version i to i + 1.
STEPS: tuple[str, ...] = (
    """
    CREATE TABLE usage (
        bucket_s INTEGER NOT NULL,  -- start of the time bucket, seconds since 1970
        queue TEXT NOT NULL,        -- '' = the capacity of the cluster
        user TEXT NOT NULL,         -- '' = the whole queue, queues below it included
        cpu REAL NOT NULL,          -- millicore seconds
        memory REAL NOT NULL,       -- byte seconds
        gpu REAL NOT NULL,          -- device seconds
        PRIMARY KEY (bucket_s, queue, user)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE facts (            -- of the recording itself
        name TEXT PRIMARY KEY,
        value
    ) WITHOUT ROWID;
    CREATE TABLE notes (            -- what readers should know: restarts, clock steps, losses
        at_s REAL NOT NULL,
        text TEXT NOT NULL
    );
    CREATE TABLE names (            -- of queues, nodes, pools and jobs in samples
        id INTEGER PRIMARY KEY,
        family TEXT NOT NULL,
        name TEXT NOT NULL,
        UNIQUE (family, name)
    );
    CREATE TABLE samples (          -- figures of a family at one time, packed (packing.py)
        family TEXT NOT NULL,
        step_s INTEGER NOT NULL,    -- the family's own step, or that of a roll-up
        at_s INTEGER NOT NULL,      -- start of the step
        data BLOB NOT NULL,
        UNIQUE (family, step_s, at_s)
    );
    CREATE TABLE jobs (
        id INTEGER PRIMARY KEY,
        uid TEXT NOT NULL UNIQUE,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        api_version TEXT NOT NULL,
        queue TEXT NOT NULL,
        user TEXT NOT NULL,
        pool TEXT NOT NULL,
        grp TEXT NOT NULL,          -- its first PodGroup
        state TEXT NOT NULL,        -- waiting, running, suspended, ended
        state_s REAL NOT NULL,      -- since when
        outcome TEXT NOT NULL,      -- Succeeded, Failed, Deleted; '' before the end
        reason TEXT NOT NULL,
        message TEXT NOT NULL,
        gpus REAL NOT NULL,         -- asked for
        created_s REAL NOT NULL,
        started_s REAL,             -- for the first time
        ended_s REAL,
        waited_s REAL NOT NULL,     -- before state_s
        ran_s REAL NOT NULL,        -- before state_s
        starts INTEGER NOT NULL,
        evictions INTEGER NOT NULL,
        interruptions INTEGER NOT NULL,
        counted_s REAL NOT NULL,    -- up to when the next four are counted
        held TEXT NOT NULL,         -- JSON: GPU seconds by product and node pool
        used_gpu_s REAL NOT NULL,   -- of what was held, what was in use as far as it is known ...
        known_gpu_s REAL NOT NULL,  -- ... and how much is known
        holding TEXT NOT NULL,      -- JSON: what its gangs hold now
        last_s REAL NOT NULL        -- its last event
    );
    CREATE INDEX jobs_by_name ON jobs (namespace, name);
    CREATE INDEX jobs_by_birth ON jobs (created_s);
    CREATE INDEX jobs_by_end ON jobs (ended_s);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        job INTEGER NOT NULL,       -- of jobs
        at_s REAL NOT NULL,
        what INTEGER NOT NULL,      -- position in job_event.WHAT
        grp TEXT NOT NULL,          -- the PodGroup; '' = the first one of the job
        gpus REAL NOT NULL,
        held REAL NOT NULL,
        pods INTEGER NOT NULL,
        reason TEXT NOT NULL,
        message TEXT NOT NULL,
        nodes NOT NULL,             -- with commas; a long list is compressed
        for_whom TEXT NOT NULL
    );
    CREATE INDEX events_of_job ON events (job, id);
    CREATE INDEX events_by_time ON events (at_s);
    CREATE TABLE spent (            -- what an hour cost whom; of days long ago, what a day did
        begin_s INTEGER NOT NULL,
        span_s INTEGER NOT NULL,
        queue TEXT NOT NULL,
        user TEXT NOT NULL,
        kind TEXT NOT NULL,
        pool TEXT NOT NULL,         -- of nodes; '' while waiting
        product TEXT NOT NULL,      -- of GPUs; '' while waiting
        gpu_s REAL NOT NULL,        -- held
        used_gpu_s REAL NOT NULL,
        known_gpu_s REAL NOT NULL,
        waited_gpu_s REAL NOT NULL, -- asked for while waiting
        waited_s REAL NOT NULL,
        started INTEGER NOT NULL,   -- jobs
        ended INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        evicted INTEGER NOT NULL,
        PRIMARY KEY (begin_s, span_s, queue, user, kind, pool, product)
    ) WITHOUT ROWID;
    """,
)
