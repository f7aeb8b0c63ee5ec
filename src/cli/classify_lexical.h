// makar classify with methods that need no language model.
#pragma once
#include <string>
#include <vector>

namespace makar {

bool is_lexical_training(const std::vector<std::string>& arguments);  // --method is given
int run_classify_lexical(const std::vector<std::string>& arguments);
int run_classify_compare(const std::vector<std::string>& arguments);
// The path of a model of `makar classify train --method` among the arguments of `makar classify run`, or "".
std::string lexical_model(const std::vector<std::string>& arguments);
int run_classify_lexical_lines(const std::vector<std::string>& arguments);

}  // namespace makar
