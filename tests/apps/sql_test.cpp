// Queries on a database that they cannot change.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>

#include "apps/hostile_sql.h"
#include "apps/sql_question.h"
#include "apps/sql_reader.h"
#include "base/file.h"
#include "base/sha256.h"
#include "infer/grammar/grammar.h"
#include "sanitized.h"
#include "scratch_folder.h"

namespace makar {
namespace {

std::string make_database(const ScratchFolder& folder, bool wal) {
  const std::string path = folder / (wal ? "wal.db" : "plain.db");
  sqlite3* c = nullptr;
  sqlite3_open(path.c_str(), &c);
  const std::string sql =
      std::string(wal ? "PRAGMA journal_mode=WAL;" : "") +
      "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y');"
      "CREATE TABLE \"odd name\" (\"col umn\" REAL); INSERT INTO \"odd name\" VALUES (0.5);"
      "CREATE VIEW v AS SELECT a FROM t; CREATE TRIGGER tr AFTER INSERT ON t BEGIN DELETE FROM t; END;";
  EXPECT_EQ(sqlite3_exec(c, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(c);
  return path;
}

// Statements that try to change the file, to reach other files, to run forever or to take all memory.
std::vector<std::string> hostile(const std::string& other) {
  const std::vector<std::string> attacks = {
      "DROP TABLE t",
      "DELETE FROM t",
      "UPDATE t SET b = 'z'",
      "INSERT INTO t VALUES (3, 'z')",
      "REPLACE INTO t VALUES (1, 'z')",
      "CREATE TABLE u (x)",
      "CREATE TEMP TABLE u (x)",
      "CREATE VIEW w AS SELECT 1",
      "CREATE INDEX i ON t (b)",
      "ALTER TABLE t RENAME TO s",
      "ALTER TABLE t ADD COLUMN c",
      "ALTER TABLE t DROP COLUMN b",
      "DROP VIEW v",
      "DROP TRIGGER tr",
      "VACUUM",
      "VACUUM INTO '" + other + "'",
      "REINDEX",
      "ANALYZE",
      "ATTACH '" + other + "' AS o",
      "DETACH main",
      "PRAGMA journal_mode=DELETE",
      "PRAGMA writable_schema=1",
      "PRAGMA user_version=7",
      "PRAGMA query_only=0",
      "PRAGMA wal_checkpoint(TRUNCATE)",
      "PRAGMA application_id=1",
      "PRAGMA temp_store_directory='/tmp'",
      "BEGIN",
      "BEGIN EXCLUSIVE",
      "COMMIT",
      "ROLLBACK",
      "SAVEPOINT s",
      "SELECT load_extension('" + other + "')",
      "SELECT writefile('" + other + "', 'x')",
      "SELECT readfile('/etc/passwd')",
      "SELECT edit('x')",
      "SELECT fts3_tokenizer('simple', x'00')",
      "SELECT zeroblob(2000000000)",
      "SELECT hex(randomblob(1000000000))",
      "WITH x AS (SELECT 1) DELETE FROM t",
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO t SELECT i, 'x' FROM n",
      "EXPLAIN DELETE FROM t; DELETE FROM t",
      "SELECT 1; DELETE FROM t",
      "SELECT 1;;; DROP TABLE t; --",
      "SELECT 1 /* ; */; UPDATE t SET b = 1",
      "CREATE VIRTUAL TABLE z USING fts5(x)",
      "CREATE VIRTUAL TABLE z USING dbstat",
      "INSERT INTO v VALUES (9)",
      "UPDATE sqlite_master SET sql = ''",
      "DELETE FROM sqlite_schema",
      "RELEASE s"};
  return disguised(attacks);
}

TEST(Sql, FiveHundredHostileStatementsAreRejected) {
  for (const bool wal : {false, true}) {
    const ScratchFolder folder;
    const std::string path = make_database(folder, wal);
    const auto before = sha256_of_file(path);
    const auto statements = hostile(folder / "other.db");
    EXPECT_GE(statements.size(), 500u);
    {
      const auto database = SqlReader::open(path);
      ASSERT_TRUE(database.ok()) << database.error().text();
      for (const std::string& sql : statements) EXPECT_FALSE(database->run(sql, {100, 1.0}).ok()) << sql;
      const auto rows = database->run("SELECT a, b FROM t ORDER BY a");
      ASSERT_TRUE(rows.ok()) << rows.error().text();
      EXPECT_EQ(rows->rows, (std::vector<std::vector<std::string>>{{"1", "x"}, {"2", "y"}}));
    }
    EXPECT_EQ(*sha256_of_file(path), *before);
    EXPECT_FALSE(folder.has("other.db"));
  }
}

TEST(Sql, WorkIsLimited) {
  const ScratchFolder folder;
  const auto database = SqlReader::open(make_database(folder, false));
  const std::string forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";
  const auto endless_count = database->run(forever + "SELECT count(*) FROM n", {10, 0.2});
  ASSERT_FALSE(endless_count.ok());
  EXPECT_EQ(endless_count.error().kind, Error::Kind::kLimit);
  const auto truncated = database->run(forever + "SELECT i FROM n", {10, 5});
  ASSERT_TRUE(truncated.ok());
  EXPECT_TRUE(truncated->truncated && truncated->rows.size() == 10);
  EXPECT_FALSE(
      database
          ->run("SELECT group_concat(x) FROM (" + forever + "SELECT printf('%1000000s', 'x') AS x FROM n)",
                {10, 2})
          .ok());
  EXPECT_FALSE(database->run(std::string(1 << 20, '(') + "1", {}).ok());
  EXPECT_FALSE(database->run(std::string("SELECT 1\0; DROP TABLE t", 22), {}).ok());
  EXPECT_FALSE(database->run("", {}).ok());
  EXPECT_FALSE(SqlReader::open(folder.write("x.db", std::string(4096, 'x'))).ok());
}

// Single function calls that would take minutes or gigabytes stay within the limits of the statement.
TEST(Sql, FunctionsAreLimited) {
  const ScratchFolder folder;
  const auto database = SqlReader::open(make_database(folder, false));
  const std::string a =
      "replace(printf('%9999s', ''), ' ', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')";
  const std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";
  const std::vector<std::string> attacks = {
      "SELECT printf('%.*c', 2000000000, 'x')",
      "SELECT format('%2000000000d', 1)",
      "SELECT printf('%.2000000000c', 'x')",
      "SELECT instr(" + a + "||" + a + ", " + a + "||'b')",
      "SELECT length(trim(" + a + ", " + a + "||'b'))",
      "SELECT length(ltrim(" + a + ", " + a + "))",
      "SELECT length(replace(" + a + ", " + a + "||'b', 'c'))",
      "SELECT " + a + " LIKE '%" + std::string(900, 'a') + "b%'",
      "SELECT " + a + " GLOB '*" + std::string(900, 'a') + "b*'",
      "SELECT t.b LIKE " + a + " FROM t",
      endless + "SELECT json_group_array(printf('%9999s', 'x') || " + a + ") FROM n",
      endless + "SELECT i FROM n ORDER BY " + a + " || i",
      endless + "SELECT DISTINCT count(*) OVER (PARTITION BY " + a + " || i) FROM n",
      endless + "SELECT count(*) FROM (SELECT i, " + a + " || i AS s FROM n UNION SELECT 1, 'x')",
  };
  for (const std::string& attack : attacks) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = database->run(attack, {10, 1});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_FALSE(result.ok()) << attack.substr(0, 80);
    EXPECT_LT(took.count(), test::kSanitized ? 60 : 15) << attack.substr(0, 80);  // on a busy machine
    EXPECT_LT(sqlite3_memory_used(), int64_t{600} << 20) << attack.substr(0, 80);
  }
  const std::string long_row = [&] {
    std::string out = "SELECT " + a;
    for (int i = 0; i < 200; ++i) out += ", " + a;
    return out;
  }();
  EXPECT_FALSE(database->run(long_row, {10, 5}).ok());
}

TEST(Sql, LimitedFunctionsReturnTheResultsOfBuiltInOnes) {
  const ScratchFolder folder;
  const auto database = SqlReader::open(make_database(folder, false));
  sqlite3* plain = nullptr;
  sqlite3_open(":memory:", &plain);
  for (const std::string& expression : {"printf('%05.2f|%s|%-8s|', 3.14159, 'x', b)",
                                        "format('%d%%', 7)",
                                        "instr('a\xc3\xa9x', 'x')",
                                        "instr(NULL, 'x')",
                                        "instr(x'0102', x'02')",
                                        "replace('aXbX', 'X', 'yy')",
                                        "replace('a', '', 'b')",
                                        "trim('..x..', '.')",
                                        "trim('  x ')",
                                        "ltrim('xxy', 'x')",
                                        "rtrim('yxx', 'x')",
                                        "'Abc' LIKE 'a%'",
                                        "'a%c' LIKE 'a!%c' ESCAPE '!'",
                                        "'a%b' LIKE 'a%%' ESCAPE '%'",
                                        "'a%c' LIKE 'a\xc3\xa9%c' ESCAPE '\xc3\xa9'",
                                        "printf('id 12345: %d', 7)",
                                        "printf('%d * 2', 7)",
                                        "printf('100000')",
                                        "'abc' GLOB 'a?c'",
                                        "'abc' GLOB 'A*'",
                                        "x'61' LIKE 'a'",
                                        "NULL LIKE 'a'",
                                        "'a' LIKE NULL",
                                        "5 LIKE '5'",
                                        "json_patch('{\"a\":1}', '{\"b\":2}')",
                                        "json_array(json_patch('{}', '{\"b\":2}'))",
                                        "typeof(printf('%d', 1))"}) {
    const std::string statement = "SELECT " + expression + " FROM (SELECT 'v' AS b)";
    std::string expected;
    const auto take = [](void* out, int, char** values, char**) -> int {
      *static_cast<std::string*>(out) = values[0] ? values[0] : "NULL";
      return 0;
    };
    ASSERT_EQ(sqlite3_exec(plain, statement.c_str(), take, &expected, nullptr), SQLITE_OK) << statement;
    const auto result = database->run(statement);
    ASSERT_TRUE(result.ok()) << statement << result.error().text();
    EXPECT_EQ(result->rows[0][0], expected) << statement;
  }
  sqlite3_close(plain);
}

TEST(Sql, CsvWithOddHeadersIsRead) {
  const ScratchFolder folder;
  std::string head = "Name,name,,NAME", row = "1,2,3,4";
  for (int i = 0; i < 700; ++i) head += ",c" + std::to_string(i), row += ",5";
  const auto table = SqlReader::from_csv(folder.write("wide.csv", head + "\n" + row + "\n"), "wide");
  ASSERT_TRUE(table.ok()) << table.error().text();
  const auto all = table->run("SELECT * FROM wide");
  ASSERT_TRUE(all.ok()) << all.error().text();
  EXPECT_EQ(all->columns.size(), 704u);
  EXPECT_EQ(all->rows[0][3], "4");
  EXPECT_EQ(table->tables()->size(), 1u);
}

TEST(Sql, CsvInLatin1IsRead) {
  const ScratchFolder folder;
  std::string csv = "product,sold\n";
  const std::vector<std::pair<std::string, int>> sales = {{"caf\xE9", 5}, {"tea", 9},  {"milk", 2},
                                                          {"caf\xE9", 6}, {"rice", 1}, {"salt", 3},
                                                          {"oil", 7},     {"bread", 4}};
  for (const auto& [product, sold] : sales) csv += product + "," + std::to_string(sold) + "\n";
  const auto database = SqlReader::from_csv(folder.write("sales.csv", csv), "sales");
  ASSERT_TRUE(database.ok()) << database.error().text();
  const auto result =
      database->run("SELECT product, SUM(sold) AS total FROM sales GROUP BY product ORDER BY total DESC");
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->rows.size(), 7u);
  EXPECT_EQ(result->rows[0], (std::vector<std::string>{"café", "11"}));
  EXPECT_EQ(result->rows[6], (std::vector<std::string>{"rice", "1"}));
  EXPECT_FALSE(database->run("DROP TABLE sales").ok());
}

TEST(Sql, AScriptMakesADatabaseThatQueriesCannotChange) {
  const auto database = SqlReader::from_script(
      "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n-- as .dump writes it\n"
      "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);\nINSERT INTO t VALUES (1, 'x'), (2, 'y; z');\n"
      "CREATE INDEX i ON t (b);\nCREATE VIEW v AS SELECT a FROM t WHERE b = 'x';\nCOMMIT;\n");
  ASSERT_TRUE(database.ok()) << database.error().text();
  const auto rows = database->run("SELECT count(*), max(b) FROM t");
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  EXPECT_EQ(rows->rows, (std::vector<std::vector<std::string>>{{"2", "y; z"}}));
  EXPECT_TRUE(database->run("SELECT a FROM v").ok());
  for (const char* change : {"DELETE FROM t", "INSERT INTO t VALUES (3, 'z')", "DROP TABLE t"})
    EXPECT_FALSE(database->run(change).ok()) << change;
}

TEST(Sql, HostileScriptsAreRejected) {
  const ScratchFolder folder;
  const std::string other = folder / "other.db";
  for (const std::string& script :
       {std::string("CREATE TABLE t (a"), std::string("ATTACH '" + other + "' AS o"),
        std::string("CREATE TABLE t (a); VACUUM INTO '" + other + "'"), std::string("PRAGMA query_only=0"),
        std::string("PRAGMA writable_schema=1"),
        std::string("CREATE TABLE t (a); CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END"),
        std::string("CREATE VIRTUAL TABLE t USING fts5(a)"), std::string("SELECT load_extension('x')"),
        std::string("SELECT writefile('" + other + "', 'x')"), std::string("BEGIN; CREATE TABLE t (a)"),
        std::string("CREATE TABLE t (a);\0", 20), std::string(size_t{5} << 20, ' '),
        std::string(
            "CREATE TABLE t AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT "
            "n, hex(n) || '0123456789012345678901234567890123456789' AS s FROM c")})
    EXPECT_FALSE(SqlReader::from_script(script).ok()) << script.substr(0, 80);
  EXPECT_FALSE(folder.has("other.db"));
}

TEST(Sql, TheGrammarAllowsOnlyNamesOfTheSchema) {
  const ScratchFolder folder;
  const auto database = SqlReader::open(make_database(folder, false));
  const auto tables = database->tables();
  ASSERT_TRUE(tables.ok());
  ASSERT_EQ(tables->size(), 3u);
  EXPECT_NE(schema_text(*tables).find("CREATE TABLE t"), std::string::npos);
  EXPECT_NE(schema_text(*tables).find("-- 1 | x"), std::string::npos);
  const auto grammar = Grammar::from_gbnf(select_grammar(*tables));
  ASSERT_TRUE(grammar.ok()) << grammar.error().text();
  const auto matches = [&](const std::string& statement) {
    GrammarState state(*grammar);
    return state.accept(statement) && state.may_end();
  };
  for (const char* good :
       {"SELECT a FROM t", "SELECT t.a, COUNT(*) AS n FROM t GROUP BY t.a ORDER BY n DESC LIMIT 3",
        "SELECT T1.a FROM t AS T1 JOIN \"odd name\" ON T1.a = \"odd name\".\"col umn\" WHERE T1.b LIKE 'x%'",
        "SELECT b FROM t WHERE a = (SELECT MAX(a) FROM t)"}) {
    EXPECT_TRUE(matches(good)) << good;
    EXPECT_TRUE(database->run(good).ok()) << good;
  }
  // Names outside of the schema, and a second statement, do not match.
  for (const char* bad :
       {"SELECT invented FROM t", "SELECT a FROM invented", "SELECT t.invented FROM t",
        "SELECT SUM(c) FROM t", "SELECT a FROM t WHERE x = 1", "SELECT a FROM t; DROP TABLE t"})
    EXPECT_FALSE(matches(bad)) << bad;
}

TEST(Sql, TheMostSimilarExamplesAreLast) {
  const std::vector<SqlExample> examples = {{"how many rivers are in texas", "a"},
                                            {"what is the capital of texas", "b"},
                                            {"what is the capital of ohio", "c"},
                                            {"What is the capital of Iowa?", "d"}};
  const auto found = similar_examples(examples, "what is the capital of ohio", 2);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].sql, "b");  // of equally similar ones the first is nearest to the question
  EXPECT_EQ(found[0].sql, "d");
  EXPECT_TRUE(similar_examples(examples, "x", 0).empty());
  EXPECT_EQ(similar_examples(examples, "x", 9).size(), 4u);
}

}  // namespace
}  // namespace makar
