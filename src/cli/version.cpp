#include "base/version.h"

#include <fmt/format.h>

#include "cli/run.h"

namespace makar {

int run_version(const std::vector<std::string>& arguments) {
  Options options("version", "Print the version.", "makar version");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  fmt::print("makar {}\n", kMakarVersion);
  return 0;
}

}  // namespace makar
