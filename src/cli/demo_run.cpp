#include "cli/demo_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "cli/run.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t interrupted = 0;
void remember_interrupt(int) { interrupted = 1; }

// A word, quoted for a shell where necessary.
std::string shell_word(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:@+%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  if (word.find('\n') != word.npos) {  // $'...' can hold line breaks
    std::string out = "$'";
    for (const char c : word)
      out += c == '\n'                ? std::string("\\n")
             : c == '\'' || c == '\\' ? std::string("\\") + c
                                      : std::string(1, c);
    return out + "'";
  }
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The name by which the program can be run in this folder.
std::string name_of(const std::string& executable) {
  if (const char* folders = std::getenv("PATH"))
    for (std::string_view rest = folders; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      std::error_code none;
      if (!folder.empty() && fs::equivalent(std::string(folder) + "/makar", executable, none)) return "makar";
    }
  std::error_code bad;
  const fs::path here = fs::current_path(bad), nearby = fs::path(executable).lexically_relative(here);
  return bad || nearby.empty() || *nearby.begin() == ".." ? executable : nearby.string();
}

// Starts a program; its standard output is `out`, or this process's own if it is -1.
Result<pid_t> spawn(const std::string& program, const CommandWords& words, int out) {
  std::vector<char*> arguments = {const_cast<char*>(program.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {  // only calls that are safe after fork
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(126);
    std::signal(SIGINT, SIG_DFL);
    if (out >= 0) dup2(out, STDOUT_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  if (child < 0)
    return error_of(Error::Kind::kIo, "demo", "cannot start a process: {}", std::strerror(errno));
  return child;
}

}  // namespace

bool demo_interrupted() { return interrupted != 0; }

DemoRun::DemoRun(DemoSettings settings) : settings_(std::move(settings)) {
  std::error_code bad;
  executable_ = fs::read_symlink("/proc/self/exe", bad).string();
  if (bad) executable_ = "makar";
  name_ = name_of(executable_);
  if (!isatty(STDOUT_FILENO))
    setenv("COLUMNS", std::to_string(terminal_width()).c_str(), 0);  // for the commands
  struct sigaction action = {};
  action.sa_handler =
      remember_interrupt;  // Ctrl-C reaches the child, which saves its work; then the demo ends
  sigaction(SIGINT, &action, nullptr);
}

void DemoRun::say(const std::string& text, size_t indent) const {
  const size_t width = std::max<size_t>(20, std::min<size_t>(terminal_width(), 100));
  std::string line;
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (!begins && line.size() + 1 + end - at >= width) {
      fmt::print("{}\n", line);
      line.assign(indent, ' '), begins = true;
    }
    line += (begins ? "" : " ") + text.substr(at, end - at);
    at = end + 1, begins = false;
  }
  fmt::print("{}\n", line);
}

// Long commands continue on the next line, as a shell reads them.
void DemoRun::show(const CommandWords& words) {
  const size_t width = std::max<size_t>(40, terminal_width());
  last_.clear();
  std::string line = "$";
  for (size_t i = 0; i < words.size(); ++i) {
    std::string shown = shell_word(words[i]);
    const bool has_value =
        words[i].starts_with('-') && i + 1 < words.size() && !words[i + 1].starts_with('-');
    if (has_value && shown.size() + words[i + 1].size() + 10 < width) shown += " " + shell_word(words[++i]);
    last_ += (last_.empty() ? "" : " ") + shown;
    if (line.size() > 1 && line.size() + shown.size() + 3 >= width) fmt::print("{} \\\n", line), line = "   ";
    line += " " + shown;
  }
  fmt::print("{}\n", line);
}

Status DemoRun::run(const std::string& program, const CommandWords& words, std::string* output, bool echo) {
  int ends[2] = {-1, -1};
  if (output && pipe2(ends, O_CLOEXEC) != 0) return io_error("demo", "make a pipe");
  const auto child = spawn(program, words, ends[1]);
  if (output) ::close(ends[1]);
  if (!child.ok()) {
    if (output) ::close(ends[0]);
    return child.error();
  }
  if (output) {
    output->clear();
    char block[4096];
    for (;;) {
      const ssize_t n = ::read(ends[0], block, sizeof block);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      output->append(block, static_cast<size_t>(n));
      if (!echo) continue;
      std::fwrite(block, 1, static_cast<size_t>(n), stdout);
      std::fflush(stdout);
    }
    ::close(ends[0]);
  }
  int status = 0;
  while (waitpid(*child, &status, 0) < 0 && errno == EINTR) {
  }
  if (interrupted) return error_of(Error::Kind::kIo, "demo", "stopped by Ctrl-C");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Done{};
  return error_of(Error::Kind::kIo, "demo", "`{}` failed with {} {}", last_,
                  WIFEXITED(status) ? "exit status" : "signal",
                  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

Status DemoRun::makar(const CommandWords& words, std::string* output, bool echo) {
  CommandWords all = {name_};
  all.insert(all.end(), words.begin(), words.end());
  show(all);
  return run(executable_, words, output, echo);
}

Status DemoRun::makar_threads(CommandWords words, std::string* output, bool echo) {
  if (settings_.threads > 0) words.insert(words.end(), {"-t", std::to_string(settings_.threads)});
  return makar(words, output, echo);
}

Result<int> DemoRun::start(const CommandWords& words) {
  CommandWords all = {name_};
  all.insert(all.end(), words.begin(), words.end());
  show(all);
  MAKAR_TRY(const pid_t child, spawn(executable_, words, -1));
  return static_cast<int>(child);
}

Status DemoRun::program(const CommandWords& words, std::string* output) {
  show(words);
  return run(words.at(0), {words.begin() + 1, words.end()}, output, false);
}

void DemoRun::wait() {
  if (server_ < 0) return;
  while (waitpid(server_, nullptr, 0) < 0 && errno == EINTR) {
  }
  server_ = -1;
}

void DemoRun::figure(const std::string& name, const std::string& value) {
  say(fmt::format("=> {}: {}", name, value), 3);
  figures_.push_back({name, value, last_});
}

std::string text_curve(const std::vector<double>& values, size_t width, size_t height) {
  if (values.empty() || width == 0 || height < 2) return "";
  const size_t columns = std::min(width, values.size());
  std::vector<double> shown(columns);  // means of equal parts
  for (size_t c = 0; c < columns; ++c) {
    const size_t from = c * values.size() / columns,
                 to = std::max(from + 1, (c + 1) * values.size() / columns);
    for (size_t i = from; i < to; ++i) shown[c] += values[i] / static_cast<double>(to - from);
  }
  const auto [low, high] = std::minmax_element(shown.begin(), shown.end());
  const double range = *high - *low;
  std::vector<std::string> rows(height, std::string(columns, ' '));
  for (size_t c = 0; c < columns; ++c) {
    const double share = range > 0 ? (*high - shown[c]) / range : 0;
    rows[static_cast<size_t>(std::lround(share * static_cast<double>(height - 1)))][c] = '*';
  }
  std::string out;
  for (size_t r = 0; r < height; ++r) {
    const double value = *high - range * static_cast<double>(r) / static_cast<double>(height - 1);
    while (!rows[r].empty() && rows[r].back() == ' ') rows[r].pop_back();
    out += fmt::format("{:>8.3f} |{}\n", value, rows[r]);
  }
  return out + "         +" + std::string(columns, '-') + "\n";
}

}  // namespace makar
