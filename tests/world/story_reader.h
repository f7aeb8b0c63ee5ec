// A second reader of stories: answers a query from the events as JSON, by scanning them backwards or by sums.
// It shares no code with src/world.
#pragma once
#include <string>

#include "base/json.h"

namespace makar {

// The value of the answer, such as "in the barn", for a record of --form questions; "?" if the query is
// unknown. For a question of yes or no "yes" or "no"; read_fact() is then the value that decides it.
std::string read_answer(const Json& record);
std::string read_fact(const Json& record);

}  // namespace makar
