#include "base/version.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace makar {

int run_version(const std::vector<std::string>&) {
  fmt::print("makar {}\n", kMakarVersion);
  return 0;
}

}  // namespace makar
