#include <fmt/format.h>

#include <string>
#include <vector>

namespace makar {

int run_version(const std::vector<std::string>&) {
  fmt::print("makar 0.1.0\n");
  return 0;
}

}  // namespace makar
