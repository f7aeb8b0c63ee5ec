#include "cli/run.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/option_names.h"
#include "cli/command_pages.h"

namespace makar {

size_t terminal_width() {
  if (const char* columns = std::getenv("COLUMNS"))
    if (const long n = std::strtol(columns, nullptr, 10); n > 0) return static_cast<size_t>(n);
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void warn(const std::string& text) { fmt::print(stderr, "makar: warning: {}\n", text); }

std::optional<int> parse_or_exit(Options& options, const std::vector<std::string>& arguments) {
  const Status status = options.parse(arguments);
  if (options.help_requested()) {
    if (collects_pages()) return store_page(CommandPage::from(options)), 0;
    std::fputs(options.help(terminal_width()).c_str(), stdout);
    return 0;
  }
  if (!status.ok()) {
    fmt::print(stderr, "makar: {}\n", status.error().text());
    return 2;
  }
  return std::nullopt;
}

int report(const Error& error) {
  fmt::print(stderr, "makar: {}\n", options_as_flags(error.text()));
  return 1;
}

}  // namespace makar
