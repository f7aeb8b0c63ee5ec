// Queries on a PostgreSQL database that they cannot change. tests/postgres/postgres.py starts a server and
// sets MAKAR_TEST_POSTGRES to the address of a role that may only read.
#include <gtest/gtest.h>

#include <cstdlib>

#include "apps/hostile_sql.h"
#include "apps/sql_question.h"
#include "apps/sql_reader.h"

namespace makar {
namespace {

// Statements that try to change the database, to reach files or programs, or to run forever.
std::vector<std::string> hostile_to_postgres() {
  const std::vector<std::string> attacks = {
      "DROP TABLE t",
      "DELETE FROM t",
      "UPDATE t SET b = 'z'",
      "UPDATE t SET b = 'z' RETURNING *",
      "INSERT INTO t VALUES (3, 'z')",
      "INSERT INTO t VALUES (1, 'z') ON CONFLICT (a) DO UPDATE SET b = 'z'",
      "MERGE INTO t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
      "TRUNCATE t",
      "CREATE TABLE u (x int)",
      "CREATE TEMP TABLE u (x int)",
      "CREATE TABLE u AS SELECT 1",
      "CREATE VIEW w AS SELECT 1",
      "CREATE INDEX ON t (b)",
      "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
      "CREATE EXTENSION dblink",
      "CREATE ROLE root SUPERUSER",
      "CREATE SCHEMA s",
      "ALTER TABLE t RENAME TO s",
      "ALTER TABLE t ADD COLUMN c int",
      "ALTER ROLE reader SUPERUSER",
      "ALTER SYSTEM SET work_mem = '1GB'",
      "DROP VIEW v",
      "GRANT ALL ON t TO PUBLIC",
      "VACUUM",
      "REINDEX TABLE t",
      "CLUSTER t USING t_pkey",
      "COPY t TO '/tmp/makar_hostile'",
      "COPY t TO PROGRAM 'touch /tmp/makar_hostile'",
      "COPY t FROM '/etc/passwd'",
      "COPY t TO STDOUT",
      "SET transaction_read_only = off",
      "SET ROLE postgres",
      "SET SESSION AUTHORIZATION postgres",
      "RESET ALL",
      "BEGIN",
      "COMMIT",
      "ROLLBACK AND CHAIN",
      "SAVEPOINT s",
      "PREPARE p AS DELETE FROM t",
      "DECLARE c CURSOR FOR SELECT 1",
      "LISTEN x",
      "NOTIFY x",
      "LOCK TABLE t IN ACCESS EXCLUSIVE MODE",
      "DO $$ BEGIN DELETE FROM t; END $$",
      "SELECT * INTO u FROM t",
      "SELECT * FROM t FOR UPDATE",
      "WITH d AS (DELETE FROM t RETURNING a) SELECT * FROM d",
      "EXPLAIN ANALYZE DELETE FROM t",
      "SELECT pg_read_file('/etc/passwd')",
      "SELECT pg_ls_dir('/')",
      "SELECT lo_import('/etc/passwd')",
      "SELECT nextval('q')",
      "SELECT setval('q', 100)",
      "SELECT set_config('transaction_read_only', 'off', false)",
      "SELECT 1) AS x (c0); DELETE FROM t; SELECT (1",
      "SELECT pg_sleep(60)"};
  return disguised(attacks);
}

class PostgresSql : public testing::Test {
 protected:
  void SetUp() override {
    const char* address = std::getenv("MAKAR_TEST_POSTGRES");
    if (!address)
      GTEST_SKIP() << "no MAKAR_TEST_POSTGRES: tests/postgres/postgres.py starts a server and runs this";
    auto opened = SqlReader::open(address);
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    reader.emplace(std::move(*opened));
  }
  std::vector<std::vector<std::string>> rows(const std::string& sql) {
    const auto found = reader->run(sql);
    EXPECT_TRUE(found.ok()) << sql << ": " << found.error().text();
    return found.ok() ? found->rows : std::vector<std::vector<std::string>>();
  }
  std::optional<SqlReader> reader;
};

using Rows = std::vector<std::vector<std::string>>;

TEST_F(PostgresSql, FiveHundredHostileStatementsAreRejected) {
  const auto statements = hostile_to_postgres();
  EXPECT_GE(statements.size(), 500u);
  for (const std::string& sql : statements) EXPECT_FALSE(reader->run(sql, {100, 0.3}).ok()) << sql;
  EXPECT_EQ(rows("SELECT a, b FROM t ORDER BY a"), (Rows{{"1", "x"}, {"2", "y"}}));
}

// Changes that a SELECT can make are rolled back with its transaction, and the session is reset.
TEST_F(PostgresSql, EffectsAreUndone) {
  (void)reader->run("SELECT lo_create(4711)");
  EXPECT_EQ(rows("SELECT count(*) FROM pg_largeobject_metadata WHERE oid = 4711"), (Rows{{"0"}}));
  EXPECT_EQ(rows("SELECT set_config('statement_timeout', '0', false)"), (Rows{{"0"}}));
  EXPECT_NE(rows("SELECT current_setting('statement_timeout')"), (Rows{{"0"}}));
  (void)reader->run("SELECT pg_advisory_lock(7)");
  EXPECT_EQ(rows("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), (Rows{{"0"}}));
}

TEST_F(PostgresSql, WorkIsLimited) {
  const std::string forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";
  const auto endless_count = reader->run(forever + "SELECT count(*) FROM n", {10, 0.2});
  ASSERT_FALSE(endless_count.ok());
  EXPECT_EQ(endless_count.error().kind, Error::Kind::kLimit);
  const auto truncated =
      reader->run("SELECT i FROM generate_series(1, 1000000) AS s (i) ORDER BY i", {10, 20});
  ASSERT_TRUE(truncated.ok()) << truncated.error().text();
  EXPECT_TRUE(truncated->truncated && truncated->rows.size() == 10 && truncated->rows[9][0] == "10");
  const auto long_cell = reader->run("SELECT repeat('x', 100000000)", {10, 20, 1 << 20});
  ASSERT_TRUE(long_cell.ok()) << long_cell.error().text();
  EXPECT_LE(long_cell->rows[0][0].size(), size_t{1} << 20);
  EXPECT_FALSE(reader->run(std::string("SELECT 1\0; DROP TABLE t", 22)).ok());
  EXPECT_FALSE(reader->run(" ; ").ok());
  EXPECT_FALSE(reader->run("SELECT " + std::string(1 << 20, '1')).ok());
  EXPECT_EQ(rows("SELECT 1"), (Rows{{"1"}}));  // the connection still works
}

// Ends the session `pid` with a statement whose text does not show it.
std::string end_session(const std::string& pid) {
  return "SELECT query_to_xml('SELECT pg_term' || 'inate_backend(" + pid + ")', true, true, '')";
}

TEST_F(PostgresSql, ALostConnectionIsMadeAgain) {
  auto other = SqlReader::open(std::getenv("MAKAR_TEST_POSTGRES"));
  ASSERT_TRUE(other.ok()) << other.error().text();
  const auto pid = rows("SELECT pg_backend_pid()");
  ASSERT_EQ(pid.size(), 1u);
  EXPECT_TRUE(other->run(end_session(pid[0][0])).ok());
  EXPECT_NE(rows("SELECT pg_backend_pid()"), pid);
  // A statement that ends its own session fails; the next one runs.
  const auto ended = reader->run(end_session("pg_backend_pid()"));
  ASSERT_FALSE(ended.ok());
  EXPECT_NE(ended.error().text().find("ends the connection"), std::string::npos) << ended.error().text();
  EXPECT_TRUE(reader->is_connected());
  EXPECT_EQ(rows("SELECT 1"), (Rows{{"1"}}));
  for (const char* sql : {"SELECT pg_terminate_backend(1)", "SELECT PG_CANCEL_BACKEND(1)", "SELECT U&\"x\""})
    EXPECT_NE(reader->run(sql).error().text().find("not allowed"), std::string::npos) << sql;
}

TEST_F(PostgresSql, TablesAndValuesAreRead) {
  const auto tables = reader->tables();
  ASSERT_TRUE(tables.ok()) << tables.error().text();
  ASSERT_EQ(tables->size(), 3u);
  EXPECT_EQ((*tables)[0].name, "Odd Name");
  EXPECT_EQ((*tables)[0].columns, (std::vector<std::string>{"Col umn"}));
  EXPECT_NE((*tables)[1].definition.find("a integer, b text, PRIMARY KEY (a)"), std::string::npos)
      << (*tables)[1].definition;
  EXPECT_EQ((*tables)[1].sample, (Rows{{"1", "x"}, {"2", "y"}}));
  const std::string grammar = select_grammar(*tables);
  EXPECT_NE(grammar.find("\\\"Odd Name\\\""), std::string::npos) << grammar;
  EXPECT_EQ(rows("SELECT NULL, true, 0.5, 'é', ARRAY[1, 2] -- the end"),
            (Rows{{"NULL", "true", "0.5", "é", "{1,2}"}}));
  EXPECT_EQ(rows("VALUES (1, 'x');"), (Rows{{"1", "x"}}));
  EXPECT_EQ(rows("WITH x AS (SELECT 5 AS n) SELECT n, n FROM x"), (Rows{{"5", "5"}}));
}

}  // namespace
}  // namespace makar
