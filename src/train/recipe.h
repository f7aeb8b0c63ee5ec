// Recipes: a YAML file of settings and key=value arguments, converted to arguments of the command's options.
// A later value of a key replaces an earlier one. Unknown keys and values of the wrong type are errors with
// file and line.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"

namespace makar {

// A key with one value or a list. An entry {path, type, weight} of `datasets` becomes
// "PATH,type=TYPE,weight=W".
struct RecipeEntry {
  std::string key;
  std::vector<std::string> values;
  int line = 0;
};

Result<std::vector<RecipeEntry>> parse_recipe(const std::string& text, const std::string& place);

// Replaces FILE.yaml and key=value arguments by options. Underscores in option names are read as dashes.
Result<std::vector<std::string>> expand_recipe(const std::vector<std::string>& arguments,
                                               const Options& options);

}  // namespace makar
