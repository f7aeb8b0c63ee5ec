// What a statement may do, as authorizers of SQLite, which asks them about each action while it prepares one.
// They deny everything when the statement's time or memory is used up.
#pragma once
#include <set>
#include <string>

namespace makar {

class SqlWork;

struct NotedColumns {
  SqlWork& work;
  std::set<std::string>& columns;  // "table.column" in lower case
};

// Reads tables and calls functions without side effects; nothing else. `work`: a SqlWork.
int authorize_query(void* work, int action, const char* first, const char* second, const char* third,
                    const char* fourth);
// As authorize_query; also adds the columns that are read to `noted`, a NotedColumns.
int authorize_and_note(void* noted, int action, const char* first, const char* second, const char* third,
                       const char* fourth);
// What a script may do besides: make and change tables, views and indices, as the output of .dump does.
int authorize_script(void* work, int action, const char* first, const char* second, const char* third,
                     const char* fourth);

}  // namespace makar
