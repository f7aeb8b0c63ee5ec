// usage: replay_corpus TARGET FOLDER
// Runs a fuzz target over the files of its corpus: what the fuzzer once found stays a test in every build.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "target.h"

namespace {
std::map<std::string, FuzzTarget>& targets() {
  static std::map<std::string, FuzzTarget> all;
  return all;
}
}  // namespace

bool register_fuzz_target(const char* name, FuzzTarget target) {
  return targets().emplace(name, target).second;
}

int main(int argc, char** argv) {
  const auto found = argc == 3 ? targets().find(argv[1]) : targets().end();
  if (found == targets().end()) {
    std::fprintf(stderr, "usage: replay_corpus TARGET FOLDER; targets:");
    for (const auto& [name, target] : targets()) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    found->second(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++count;
  }
  std::printf("%d inputs\n", count);
  return count > 0 ? 0 : 1;
}
