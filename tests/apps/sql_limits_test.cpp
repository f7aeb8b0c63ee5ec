// Limits of statements on memory and time while they are prepared, repeatable results, and scores.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "apps/sql_functions.h"
#include "apps/sql_score.h"
#include "sanitized.h"

namespace makar {
namespace {

// A chain whose last part reads the first one 2^length times.
std::string chain_of_ctes(int length) {
  std::string out = "WITH t0(x) AS (SELECT 1)";
  for (int i = 1; i <= length; ++i)
    out += fmt::format(", t{0}(x) AS (SELECT a.x FROM t{1} a, t{1} b)", i, i - 1);
  return out + fmt::format(" SELECT * FROM t{}", length);
}

std::string chain_of_views(int length, const char* body) {
  std::string out = "CREATE TABLE v0 (x); INSERT INTO v0 VALUES (1);";
  for (int i = 1; i <= length; ++i)
    out += fmt::format("CREATE VIEW v{} AS ", i) +
           fmt::format(fmt::runtime(body), fmt::arg("v", fmt::format("v{}", i - 1))) + ";";
  return out;
}

SqlReader database_of(const std::string& script, bool repeatable = false) {
  auto out = SqlReader::from_script(script, repeatable);
  EXPECT_TRUE(out.ok()) << out.error().text();
  return std::move(out).value();
}

void expect_limited(const SqlReader& database, const std::string& sql) {
  const auto begin = std::chrono::steady_clock::now();
  sqlite3_memory_highwater(1);
  const auto result = database.run(sql, {10, 2});
  const auto reads = database.reads(sql);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(result.ok() || reads.ok()) << sql.substr(0, 80);
  for (const Error& error : {result.error(), reads.error()}) EXPECT_EQ(error.place, "SQL") << error.text();
  EXPECT_LT(took.count(), test::kSanitized ? 60 : 15) << sql.substr(0, 80);  // on a busy machine
  EXPECT_LT(sqlite3_memory_highwater(0), SqlWork::kMaxMemoryBytes + (int64_t{64} << 20)) << sql.substr(0, 80);
}

TEST(SqlLimits, PreparationIsLimited) {
  const SqlReader empty = database_of("");
  const auto small = empty.run(chain_of_ctes(8));
  ASSERT_TRUE(small.ok()) << small.error().text();
  EXPECT_EQ(small->rows.size(), 1u);
  expect_limited(empty, chain_of_ctes(25));
  const auto large = empty.run(chain_of_ctes(25));
  EXPECT_EQ(large.error().kind, Error::Kind::kLimit) << large.error().text();
  const SqlReader joins = database_of(chain_of_views(25, "SELECT a.x FROM {v} a, {v} b"));
  expect_limited(joins, "SELECT * FROM v25");
  const std::string wide = "(" + std::string(400, '1') + "+1)";  // a large view is copied less often
  const SqlReader wide_joins =
      database_of(chain_of_views(14, ("SELECT a.x, " + wide + " FROM {v} a, {v} b, {v} c").c_str()));
  expect_limited(wide_joins, "SELECT * FROM v14");
  const SqlReader sums = database_of(chain_of_views(60, "SELECT x + x AS x FROM {v}"));
  const auto sum = sums.run("SELECT * FROM v60", {10, 2});
  EXPECT_TRUE(sum.ok() || sum.error().kind == Error::Kind::kLimit) << sum.error().text();
  for (const SqlReader* database : {&empty, &joins, &wide_joins, &sums})
    EXPECT_TRUE(database->run("SELECT 1").ok());
}

TEST(SqlLimits, AViewInAScriptIsLimited) {
  const auto begin = std::chrono::steady_clock::now();
  const auto made = SqlReader::from_script(chain_of_views(25, "SELECT a.x FROM {v} a, {v} b") +
                                           "CREATE TABLE t AS " + chain_of_ctes(25));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, Error::Kind::kLimit) << made.error().text();
  EXPECT_LT(took.count(), test::kSanitized ? 60 : 15);
}

// A statement that reaches its limits must not fail those of other threads.
TEST(SqlLimits, OtherThreadsAreNotLimited) {
  std::atomic<bool> ended{false};
  std::atomic<int> ran{0}, failed{0};
  std::thread other([&] {
    sqlite3* c = nullptr;
    sqlite3_open(":memory:", &c);
    while (!ended) {
      const int code = sqlite3_exec(c, "CREATE TABLE t AS SELECT zeroblob(100000); DROP TABLE t", nullptr,
                                    nullptr, nullptr);
      (code == SQLITE_OK ? ran : failed) += 1;
    }
    sqlite3_close(c);
  });
  const SqlReader empty = database_of("");
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(empty.run(chain_of_ctes(25), {10, 2}).ok());
  ended = true;
  other.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(ran, 0);
}

TEST(SqlLimits, RepeatableStatementsCannotReadTheClockOrRandomNumbers) {
  const std::string script =
      "CREATE TABLE t (d TEXT, \"now\" TEXT); INSERT INTO t VALUES ('2026-03-01', 'x')";
  const SqlReader any = database_of(script), repeatable = database_of(script, true);
  for (const char* sql :
       {"SELECT random() > 0", "SELECT date('now')", "SELECT datetime('NOW', '-1 day')", "SELECT date()",
        "SELECT strftime('%Y')", "SELECT strftime('%Y', 'now')", "SELECT julianday('n' || 'ow')",
        "SELECT date(x'6e4f7700')", "SELECT time()", "SELECT unixepoch('now')", "SELECT CURRENT_TIMESTAMP",
        "SELECT CURRENT_DATE", "SELECT current_time", "SELECT d FROM t ORDER BY random()"}) {
    EXPECT_TRUE(any.run(sql).ok()) << sql;
    EXPECT_FALSE(repeatable.run(sql).ok()) << sql;
  }
  const auto refused = repeatable.run("SELECT random()");
  EXPECT_NE(refused.error().text().find("random numbers"), std::string::npos) << refused.error().text();
  for (const char* sql : {"SELECT date(d, '+1 month') FROM t", "SELECT strftime('%Y', d) FROM t",
                          "SELECT \"now\", julianday(d) FROM t", "SELECT date(NULL)", "SELECT time(1.5)"}) {
    const auto result = repeatable.run(sql), expected = any.run(sql);
    ASSERT_TRUE(result.ok()) << sql << ": " << result.error().text();
    EXPECT_EQ(result->rows, expected->rows) << sql;
  }
  const std::string stamped = "CREATE TABLE t (a, b DEFAULT CURRENT_TIMESTAMP); INSERT INTO t (a) VALUES (1)";
  EXPECT_TRUE(SqlReader::from_script(stamped).ok());
  EXPECT_FALSE(SqlReader::from_script(stamped, true).ok());
  EXPECT_FALSE(SqlReader::from_script("CREATE TABLE t AS SELECT random()", true).ok());
}

TEST(SqlScore, RowsAreComparedWithThoseOfTheReference) {
  const SqlReader database =
      database_of("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3.0, NULL)");
  const auto expected = expected_rows(database, "SELECT a, b FROM t");
  const auto ordered = expected_rows(database, "SELECT a FROM t ORDER BY a");
  ASSERT_TRUE(expected.ok() && ordered.ok());
  EXPECT_TRUE(*returns_rows(database, "SELECT a AS p, b AS q FROM t ORDER BY a DESC", *expected));
  EXPECT_TRUE(*returns_rows(database, "SELECT CAST(a AS REAL), b FROM t", *expected));
  EXPECT_FALSE(*returns_rows(database, "SELECT a, b FROM t WHERE a < 3", *expected));
  EXPECT_FALSE(*returns_rows(database, "SELECT a FROM t", *expected));
  EXPECT_FALSE(*returns_rows(database, "SELECT missing FROM t", *expected));
  EXPECT_FALSE(*returns_rows(database, "SELECT a FROM t ORDER BY a DESC", *ordered));
  EXPECT_TRUE(*returns_rows(database, "SELECT a FROM t ORDER BY a", *ordered));
  const auto score = score_sql(database, "SELECT a + 0, b FROM t", "SELECT a, b FROM t");
  ASSERT_TRUE(score.ok());
  EXPECT_TRUE(score->runs && score->execution && score->schema);
}

TEST(SqlScore, ValuesAreComparedWithTheirTypes) {
  const SqlReader database = database_of("");
  const auto same = [&](const std::string& a, const std::string& b) {
    return *returns_rows(database, "SELECT " + b, *expected_rows(database, "SELECT " + a));
  };
  for (const auto& [a, b] : {std::pair("3", "3.0"),
                             {"0.1 + 0.2", "0.3"},
                             {"-0.0", "0"},
                             {"'x'", "'x'"},
                             {"2.9999999999999996", "3"},
                             {"x'0102'", "x'0102'"},
                             {"NULL", "NULL"}})
    EXPECT_TRUE(same(a, b)) << a << " " << b;
  for (const auto& [a, b] : {std::pair("12345678901", "12345678904"),
                             {"1700000000123", "1700000000456"},
                             {"'02134'", "2134"},
                             {"'inf'", "'Infinity'"},
                             {"9007199254740993", "9007199254740992"},
                             {"x'0102'", "x'0908'"},
                             {"NULL", "'NULL'"},
                             {"'x', 'y'", "'xy', ''"},
                             {"0.1", "0.2"}})
    EXPECT_FALSE(same(a, b)) << a << " " << b;
}

// A prefix that the limits cut off is not the result.
TEST(SqlScore, AReferenceWithTooManyRowsIsAnError) {
  const SqlReader database = database_of("");
  const std::string numbers =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {}) SELECT i FROM n";
  const auto at_limit = expected_rows(database, fmt::format(fmt::runtime(numbers), 1000));
  ASSERT_TRUE(at_limit.ok()) << at_limit.error().text();
  EXPECT_FALSE(*returns_rows(database, fmt::format(fmt::runtime(numbers), 1001), *at_limit));
  const auto beyond = expected_rows(database, fmt::format(fmt::runtime(numbers), 1001));
  ASSERT_FALSE(beyond.ok());
  EXPECT_NE(beyond.error().text().find("more than 1000 rows"), std::string::npos) << beyond.error().text();
  EXPECT_FALSE(score_sql(database, "SELECT 1", fmt::format(fmt::runtime(numbers), 1001)).ok());
}

TEST(SqlReader, JsonTablesAreRead) {
  const SqlReader database = database_of("CREATE TABLE t (a); INSERT INTO t VALUES ('[1, 2]')");
  const auto rows =
      database.run("SELECT value FROM t, json_each(t.a) UNION ALL SELECT fullkey FROM json_tree('3')");
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  EXPECT_EQ(rows->rows, (std::vector<std::vector<std::string>>{{"1"}, {"2"}, {"$"}}));
  EXPECT_FALSE(database.run("SELECT * FROM pragma_table_info('t')").ok());
}

// A view that takes the name is not run when the database is opened.
TEST(SqlReader, AViewCanHaveTheNameOfAJsonTable) {
  const SqlReader database = database_of(
      "CREATE VIEW json_each AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i "
      "FROM n");
  EXPECT_EQ(database.run("SELECT i FROM json_each LIMIT 2")->rows.size(), 2u);
}

}  // namespace
}  // namespace makar
