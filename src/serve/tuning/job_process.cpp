#include "serve/tuning/job_process.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/file.h"

namespace makar {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{100};
constexpr std::chrono::seconds kEndTimeout{40};  // of a killed process

struct ProcessStat {
  int pid = 0;
  char state = 0;
  uint64_t start = 0;  // since the machine started: another process with this pid has another one
};

// The text of /proc/PID/stat: "PID (NAME) STATE ...", with the start in field 22. The name may have any
// characters.
std::optional<ProcessStat> read_stat(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (!std::getline(in, text)) return std::nullopt;
  ProcessStat out;
  std::istringstream first(text), rest(text.substr(std::min(text.rfind(')'), text.size() - 1) + 1));
  first >> out.pid;
  std::string unused;
  rest >> out.state;
  for (int field = 4; field < 22; ++field) rest >> unused;
  rest >> out.start;
  return first && rest && out.pid > 1 ? std::optional(out) : std::nullopt;
}

// Whether the name ends as that of a part of a split model, "-00001-of-00003.gguf": the other parts must lie
// next to it.
bool is_split(const std::string& name) {
  constexpr std::string_view kPattern = "-00000-of-00000.gguf";
  if (name.size() < kPattern.size()) return false;
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const char c = name[name.size() - kPattern.size() + i];
    if (kPattern[i] == '0' ? c < '0' || c > '9' : c != kPattern[i]) return false;
  }
  return true;
}

}  // namespace

Result<std::string> link_base(const std::string& job_folder, const std::string& path) {
  std::error_code failed;
  fs::path target = fs::absolute(path, failed);
  std::string link = kBaseLink, base = kBaseLink;
  if (!is_folder(path) && is_split(target.filename().string()))
    base += "/" + target.filename().string(), target = target.parent_path();
  else if (!is_folder(path))
    link = base = link + target.extension().string();
  const std::string at = job_folder + "/" + link;
  fs::remove(at, failed);
  fs::create_symlink(target, at, failed);
  if (failed) return error_of(Error::Kind::kIo, link, "cannot be created: {}", failed.message());
  return base;
}

std::optional<int> running_process(const std::string& stat_file) {
  const auto then = read_stat(stat_file);
  if (!then) return std::nullopt;
  const auto now = read_stat("/proc/" + std::to_string(then->pid) + "/stat");
  const bool runs = now && now->start == then->start && now->state != 'Z' && now->state != 'X';
  return runs ? std::optional(then->pid) : std::nullopt;
}

bool end_earlier_process(const JobFolder& folder, std::chrono::milliseconds patience,
                         const std::function<bool()>& is_over, const std::function<bool()>& stopping) {
  for (const auto begin = Clock::now();; std::this_thread::sleep_for(kPoll)) {
    const auto process = running_process(folder.process_stat());
    if (!process && !folder.run_locked()) return true;
    const auto waited = Clock::now() - begin;
    if (stopping() || waited > patience + kEndTimeout) return false;
    if (process && (waited > patience || is_over())) kill(-*process, SIGKILL);
  }
}

}  // namespace makar
