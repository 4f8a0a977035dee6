-- min_code: 1

-- All times are of this server, in milliseconds.
CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

CREATE TABLE fact (name text PRIMARY KEY, value bigint NOT NULL);
INSERT INTO fact VALUES ('tasks', 0), ('keys', 0);

CREATE TABLE lease (process text PRIMARY KEY, until_ms bigint NOT NULL);

CREATE TABLE replica (
    process text PRIMARY KEY, facts jsonb NOT NULL, seen_ms bigint NOT NULL, draining boolean NOT NULL
);

CREATE TABLE budget (
    day bigint NOT NULL, key text NOT NULL, used bigint NOT NULL, PRIMARY KEY (day, key)
);

CREATE TABLE task (
    id text PRIMARY KEY, binding text NOT NULL, tool text NOT NULL, fingerprint text NOT NULL,
    digest text NOT NULL, ttl_ms bigint NOT NULL, payload bytea, status text NOT NULL, message text,
    created_ms bigint NOT NULL, updated_ms bigint NOT NULL, version bigint NOT NULL,
    attempt integer NOT NULL, owner text, outcome bytea, queue text, until_ms bigint NOT NULL
);
CREATE INDEX task_open ON task (owner, binding) WHERE status IN ('queued', 'working');
CREATE INDEX task_until ON task (until_ms);
CREATE TABLE question (
    task text NOT NULL REFERENCES task ON DELETE CASCADE, key text NOT NULL, request bytea NOT NULL,
    answer bytea, PRIMARY KEY (task, key)
);

CREATE SEQUENCE value_version;
CREATE TABLE space (name text PRIMARY KEY, entries bigint NOT NULL, bytes bigint NOT NULL);
CREATE TABLE value (
    space text NOT NULL, key text COLLATE "C" NOT NULL, owner text NOT NULL, value bytea NOT NULL,
    version bigint NOT NULL, until_ms bigint, PRIMARY KEY (space, key)
);
CREATE INDEX value_owner ON value (space, owner, key);
CREATE INDEX value_age ON value (space, version);
CREATE INDEX value_until ON value (until_ms);

CREATE TABLE api_key (
    id text PRIMARY KEY, name text NOT NULL, hash text UNIQUE NOT NULL, prefix text NOT NULL,
    scopes text[] NOT NULL, roles text[] NOT NULL, created_ms bigint NOT NULL, expires_ms bigint,
    revoked_ms bigint
);

CREATE TABLE audit_record (
    seq bigint NOT NULL, at_ms bigint NOT NULL, id text NOT NULL, principal text NOT NULL,
    tool text NOT NULL, outcome text NOT NULL, line bytea NOT NULL, stream text COLLATE "C" NOT NULL,
    PRIMARY KEY (stream, seq)
);
CREATE INDEX audit_record_at ON audit_record (at_ms, stream, seq);
CREATE INDEX audit_record_principal ON audit_record (principal, at_ms);
CREATE INDEX audit_record_tool ON audit_record (tool, at_ms);
