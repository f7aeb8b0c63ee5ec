// Recipes: a YAML file of settings and key=value words, turned into arguments of the command's own options. A
// later value of a key takes the place of an earlier one; an unknown key is an error that names the nearest
// known one.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"

namespace makar {

// A key with its values: one, or those of a list. An entry {path, type, weight} of `datasets` becomes
// "PATH,type=TYPE,weight=W".
struct RecipeEntry {
  std::string key;
  std::vector<std::string> values;
  int line = 0;
};

Result<std::vector<RecipeEntry>> parse_recipe(const std::string& text, const std::string& place);

// Takes FILE.yaml and key=value words out of the arguments and puts options in their place. Underscores in
// names of options count as dashes.
Result<std::vector<std::string>> expand_recipe(const std::vector<std::string>& arguments,
                                               const Options& options);

// "PATH,type=alpaca,weight=2" of --datasets.
struct DatasetSpec {
  std::string path, type;
  double weight = 0;
};
Result<DatasetSpec> parse_dataset(const std::string& text);

}  // namespace makar
