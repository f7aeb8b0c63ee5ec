// Any text as a statement: it runs within its limits or is refused, and the table is unchanged.
#include <unistd.h>

#include "apps/sql_reader.h"
#include "apps/sql_score.h"
#include "base/file.h"
#include "target.h"

using namespace makar;

namespace {

SqlReader open_table() {
  const std::string path = "/tmp/makar_fuzz_sql_" + std::to_string(::getpid()) + ".csv";
  check(write_file(path, "a,b\n1,x\n2,y\n3,\n").ok(), "the table can be written");
  auto reader = SqlReader::from_csv(path, "t");
  ::unlink(path.c_str());
  check(reader.ok(), "the table can be opened");
  return std::move(*reader);
}

}  // namespace

FUZZ_TARGET(apps_sql) {
  static const SqlReader database = open_table();
  const std::string statement(reinterpret_cast<const char*>(data), size);
  const SqlLimits limits{20, 0.1, 1 << 20};
  const auto result = database.run(statement, limits);
  if (result.ok()) {
    check(result->rows.size() <= 20 && !result->columns.empty(), "at most 20 rows, with columns");
    for (const auto& row : result->rows) check(row.size() == result->columns.size(), "one value per column");
  } else {
    check(result.error().text().size() < 1000, "a bounded message");
  }
  (void)database.reads(statement).ok();
  const auto after = database.run("SELECT count(*), sum(a), group_concat(b) FROM t");
  check(after.ok() && after->rows[0] == std::vector<std::string>({"3", "6", "x,y,"}),
        "the table is unchanged");
  return 0;
}
