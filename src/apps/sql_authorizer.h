// What a statement may do, as authorizers of SQLite, which asks them about each action while it prepares one.
#pragma once

namespace makar {

// Reads tables and calls functions without side effects; nothing else.
int authorize_query(void*, int action, const char* first, const char* second, const char* third,
                    const char* fourth);
// As authorize_query; also adds the columns that are read to the set of strings `seen`, as "table.column" in
// lower case.
int authorize_and_note(void* seen, int action, const char* first, const char* second, const char* third,
                       const char* fourth);
// What a script may do besides: make and change tables, views and indices, as the output of .dump does.
int authorize_script(void*, int action, const char* first, const char* second, const char* third,
                     const char* fourth);

}  // namespace makar
