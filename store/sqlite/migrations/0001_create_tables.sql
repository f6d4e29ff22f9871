-- Times are nanoseconds since 1970 UTC; the greatest integer stands for "not yet", the least for "never".
-- Enumerations hold the numbers of weft.v1. Payloads are serialised weft.v1 messages; nothing queries them.

-- Totals that survive retention. The result counter also gives out result ids, so ids are never used twice.
CREATE TABLE counter (
  name TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter (name, value) VALUES ('detection_cursor', 0), ('result', 0), ('round', 0);

CREATE TABLE node (
  node_id TEXT NOT NULL PRIMARY KEY,
  boot_id TEXT NOT NULL,
  first_seen_time_ns INTEGER NOT NULL,
  last_seen_time_ns INTEGER NOT NULL,
  last_success_time_ns INTEGER NOT NULL,
  clock_offset_ns INTEGER NOT NULL,
  spool_lost_records INTEGER NOT NULL,
  payload BLOB NOT NULL  -- Node
) STRICT;

CREATE TABLE run (
  run_key INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  probe TEXT NOT NULL,
  cohort TEXT NOT NULL,
  round INTEGER NOT NULL,
  plan_time_ns INTEGER NOT NULL,
  end_time_ns INTEGER NOT NULL,
  state INTEGER NOT NULL,
  in_maintenance INTEGER NOT NULL,
  detail TEXT NOT NULL,
  payload BLOB NOT NULL  -- ProbeSpec
) STRICT;
CREATE INDEX run_by_plan_time ON run (plan_time_ns);
CREATE INDEX active_run ON run (run_key) WHERE state = 1;

CREATE TABLE participant (
  run_key INTEGER NOT NULL REFERENCES run (run_key) ON DELETE CASCADE,
  rank INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  PRIMARY KEY (run_key, rank)
) STRICT, WITHOUT ROWID;
CREATE INDEX participant_by_node ON participant (node_id, run_key);

-- Highest round of a cohort of a probe; outlives the runs.
CREATE TABLE last_round (
  probe TEXT NOT NULL,
  cohort TEXT NOT NULL,
  round INTEGER NOT NULL,
  PRIMARY KEY (probe, cohort)
) STRICT, WITHOUT ROWID;

CREATE TABLE result (
  result_id INTEGER PRIMARY KEY,
  run_key INTEGER NOT NULL REFERENCES run (run_key),
  node_id TEXT NOT NULL,
  rank INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  plan_time_ns INTEGER NOT NULL,  -- of the run, copied for the history index
  payload BLOB NOT NULL           -- Result without run and node
) STRICT;
CREATE INDEX result_by_run ON result (run_key);
CREATE INDEX result_by_node ON result (node_id, plan_time_ns);

-- Which sequences of a spool are stored, as closed ranges that never touch. The range that starts at the
-- spool's first sequence ends at its high-water mark; a sequence that never arrives costs one row, not one
-- row for each sequence after it.
CREATE TABLE stored_range (
  node_id TEXT NOT NULL,
  epoch TEXT NOT NULL,
  first_sequence INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL,
  PRIMARY KEY (node_id, epoch, first_sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE detector_state (
  key TEXT NOT NULL PRIMARY KEY,
  payload BLOB NOT NULL  -- opaque
) STRICT;

CREATE TABLE episode (
  episode_id TEXT NOT NULL PRIMARY KEY,
  finding_key TEXT NOT NULL,
  severity INTEGER NOT NULL,
  since_time_ns INTEGER NOT NULL,
  open_time_ns INTEGER NOT NULL,
  resolve_time_ns INTEGER NOT NULL,
  notified INTEGER NOT NULL,
  payload BLOB NOT NULL  -- Finding
) STRICT;
CREATE UNIQUE INDEX open_episode ON episode (finding_key) WHERE resolve_time_ns = 9223372036854775807;
CREATE INDEX episode_by_resolve_time ON episode (resolve_time_ns);

CREATE TABLE episode_node (
  node_id TEXT NOT NULL,
  episode_id TEXT NOT NULL REFERENCES episode (episode_id) ON DELETE CASCADE,
  PRIMARY KEY (node_id, episode_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX episode_node_by_episode ON episode_node (episode_id);

-- Runs that open episodes name as evidence: retention leaves them alone.
CREATE TABLE open_evidence (
  run_id TEXT NOT NULL,
  episode_id TEXT NOT NULL REFERENCES episode (episode_id) ON DELETE CASCADE,
  PRIMARY KEY (run_id, episode_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX open_evidence_by_episode ON open_evidence (episode_id);

CREATE TABLE delivery (
  delivery_key INTEGER PRIMARY KEY,
  delivery_id TEXT NOT NULL UNIQUE,
  receiver TEXT NOT NULL,
  episode_id TEXT NOT NULL REFERENCES episode (episode_id),
  action INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  state INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  outcome_unknown INTEGER NOT NULL,
  not_before_time_ns INTEGER NOT NULL,
  create_time_ns INTEGER NOT NULL,
  deliver_time_ns INTEGER NOT NULL,
  last_status INTEGER NOT NULL,
  last_error TEXT NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (receiver, episode_id, sequence)
) STRICT;
CREATE INDEX pending_delivery ON delivery (receiver, episode_id, sequence) WHERE state = 1;
CREATE INDEX delivery_by_episode ON delivery (episode_id);
CREATE INDEX finished_delivery ON delivery (create_time_ns) WHERE state <> 1;

CREATE TABLE maintenance_window (
  window_key INTEGER PRIMARY KEY,
  window_id TEXT NOT NULL UNIQUE,
  request_id TEXT UNIQUE,        -- NULL: the client chose none
  request_payload BLOB NOT NULL,  -- what was asked for, to compare with when the request comes again
  revision INTEGER NOT NULL,
  create_time_ns INTEGER NOT NULL,
  ended_time_ns INTEGER NOT NULL,
  payload BLOB NOT NULL  -- MaintenanceWindow
) STRICT;
