// A heat map of the attention of an answer to its source.
#pragma once
#include <string>
#include <vector>

#include "llm/language_model.h"

namespace makar {

// An SVG image of `values` (row by row); `rows` and `columns` are the labels. Darker is larger.
std::string svg_heat_map(const std::string& title, const std::vector<std::string>& rows,
                         const std::vector<std::string>& columns, const std::vector<double>& values);

// A heat map (SVG) of the last layer that attends to the source, averaged over its heads: one row per token
// of `answer`, one column per token of `source`.
Result<std::string> alignment_plot(const LanguageModel& language, Device& device,
                                   const std::vector<int64_t>& source, const std::vector<int64_t>& answer);

}  // namespace makar
