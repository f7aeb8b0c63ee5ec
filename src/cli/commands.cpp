#include "cli/command.h"

namespace makar {

int run_version(const std::vector<std::string>&);

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"version", "print the version", run_version},
  };
  return table;
}

}  // namespace makar
