#include "cli/run.h"

#include <cstdio>

namespace makar {

std::optional<int> parse_or_exit(Options& options, const std::vector<std::string>& arguments) {
  const Status status = options.parse(arguments);
  if (options.help_asked()) {
    std::fputs(options.help().c_str(), stdout);
    return 0;
  }
  if (!status.ok()) {
    fmt::print(stderr, "makar: {}\n", status.error().text());
    return 2;
  }
  return std::nullopt;
}

int report(const Error& error) {
  fmt::print(stderr, "makar: {}\n", error.text());
  return 1;
}

}  // namespace makar
