#include "retrieval/index_stamp.h"

#include <sys/stat.h>

#include "database/postgres.h"
#include "retrieval/store.h"

namespace makar {

Result<std::string> index_stamp(const std::string& path) {
  std::string out;
  if (is_postgres_address(path)) {
    MAKAR_TRY(const IndexStore store, IndexStore::open(path, false));
    MAKAR_RETURN_IF_ERROR(store.database().each(
        "SELECT id, changes FROM collections ORDER BY id", {},
        [&](const SqlRow& row) { out += fmt::format("{} {};", sql_number(row[0]), sql_number(row[1])); }));
    return out;
  }
  // SQLite writes to the log first, then to the file.
  for (const char* suffix : {"", "-wal"}) {
    struct stat info {};
    if (::stat((path + suffix).c_str(), &info) == 0 && info.st_size > 0)
      out += fmt::format("{} {} {};", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  return out;
}

}  // namespace makar
