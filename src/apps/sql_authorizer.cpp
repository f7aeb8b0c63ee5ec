#include "apps/sql_authorizer.h"

#include <sqlite3.h>

#include "apps/sql_functions.h"
#include "base/lower_ascii.h"

namespace makar {
namespace {

// Functions that read or write files, load code, or allocate memory of a size that the query sets.
constexpr const char* kDeniedFunctions[] = {
    "load_extension", "readfile", "writefile",  "edit",
    "fts3_tokenizer", "zeroblob", "randomblob", "sqlite_compileoption_get"};

}  // namespace

int authorize_query(void* work, int action, const char*, const char* second, const char*, const char*) {
  // SQLite asks for every column that it resolves, which alone can take long.
  if (work && static_cast<SqlWork*>(work)->exceeded()) return SQLITE_DENY;
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      for (const char* denied : kDeniedFunctions)
        if (second && sqlite3_stricmp(second, denied) == 0) return SQLITE_DENY;
      return SQLITE_OK;
    default:
      return SQLITE_DENY;
  }
}

int authorize_and_note(void* argument, int action, const char* first, const char* second, const char* third,
                       const char* fourth) {
  const auto& noted = *static_cast<const NotedColumns*>(argument);
  if (action == SQLITE_READ && first) {
    const std::string name = std::string(first) + "." + (second ? second : "");
    noted.columns.insert(lower_ascii(name));
  }
  return authorize_query(&noted.work, action, first, second, third, fourth);
}

int authorize_script(void* work, int action, const char* first, const char* second, const char* third,
                     const char* fourth) {
  switch (action) {
    case SQLITE_CREATE_TABLE:
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_VIEW:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_VIEW:
    case SQLITE_ALTER_TABLE:
    case SQLITE_REINDEX:
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_TRANSACTION:
      return SQLITE_OK;
    case SQLITE_PRAGMA:
      return first && sqlite3_stricmp(first, "foreign_keys") == 0 ? SQLITE_OK : SQLITE_DENY;
    default:
      return authorize_query(work, action, first, second, third, fourth);
  }
}

}  // namespace makar
