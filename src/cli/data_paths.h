// Datasets on the command line: a path, optionally with names of columns (PATH,text=review).
#pragma once
#include <string>
#include <vector>

#include "data/datasets.h"

namespace makar {

inline Result<std::vector<DataPath>> parse_data_paths(const std::vector<std::string>& texts) {
  std::vector<DataPath> out;
  for (const std::string& text : texts) {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    out.push_back(spec.data());
  }
  return out;
}

}  // namespace makar
