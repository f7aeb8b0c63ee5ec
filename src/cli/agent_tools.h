// The tools of makar agent as options. The calculator is on by default; every other tool needs its option.
#pragma once
#include <memory>

#include "apps/tool.h"
#include "base/options.h"
#include "cli/index_options.h"

namespace makar {

struct AgentToolFlags {
  std::string index, collection = kDefaultCollection, database, code;
  std::vector<std::string> hosts, servers;  // --allow-host, --mcp
  int64_t passages = 3;
  bool no_calculator = false;

  void declare(Options& options);
  Status check() const;  // an error is bad usage (exit code 2)
  // Opens indexes and databases and starts servers.
  Result<std::vector<Tool>> open(int64_t threads) const;
};

}  // namespace makar
