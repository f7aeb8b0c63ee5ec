// Entry point: runs the command and reports failed checks.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "base/failure.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "kernels/cpu_device.h"

namespace {

void print_help() {
  fmt::print("makar: train, convert, run and serve language models\n\nusage: makar COMMAND [options]\n\n");
  makar::print_commands(stdout, makar::commands());
  fmt::print("\n`makar COMMAND --help` lists the options of a command.\n");
}

// The exit code of a command; 1 if a part of its output was lost.
int with_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "makar: standard output cannot be written: {}\n", std::strerror(errno));
  return code == 0 ? 1 : code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_help();
    return with_output(words.empty() ? 2 : 0);
  }
  const std::string name = words[0] == "--version" ? "version" : words[0];
  try {
    if (const auto isa = makar::CpuDevice::instructions_in_use(); !isa.ok()) {
      fmt::print(stderr, "makar: {}\n", isa.error().text());
      return 2;
    }
    std::vector<std::string> known;
    for (const auto& command : makar::commands()) {
      if (name == command.name) return with_output(command.run({words.begin() + 1, words.end()}));
      known.emplace_back(command.name);
    }
    fmt::print(stderr, "makar: unknown command '{}'{} (makar --help lists the commands)\n", name,
               makar::did_you_mean(name, known));
    return 2;
  } catch (const makar::OutOfMemory& e) {
    fmt::print(stderr, "makar: {}\n", e.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "makar: out of memory\n");
  } catch (const makar::DeviceFailure& e) {
    fmt::print(
        stderr,
        "makar: {}; if this was a training run, its checkpoints are intact and the same command resumes it\n",
        e.what());
  } catch (const std::exception& e) {
    if (std::ferror(stdout) != 0) return with_output(1);  // thrown by fmt::print
    fmt::print(stderr, "makar: internal error, please report it: {}\n", e.what());
  }
  return 1;
}
