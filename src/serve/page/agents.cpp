#include "serve/page/agents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/quote.h"
#include "serve/page/runs.h"

namespace makar {
namespace {

constexpr size_t kMaxTraces = 500, kMaxTraceBytes = size_t{16} << 20, kMaxAnswerBytes = 65536;
constexpr int kMaxTraceDepth = 64;
constexpr std::string_view kTraceExtension = ".jsonl";

std::string trace_path(const std::string& folder, const std::string& name) {
  return folder + "/" + name + std::string(kTraceExtension);
}

// Older traces have other names.
void rename_field(Json& line, const std::string& old_name, const std::string& name) {
  if (!line.contains(old_name)) return;
  Json value = std::move(line[old_name]);
  line.erase(old_name);
  line[name] = std::move(value);
}

Result<std::vector<Json>> trace_lines(const std::string& folder, const std::string& name, size_t max) {
  const std::string path = trace_path(folder, name);
  if (!is_plain_name(name) || !is_file(path))
    return error_of(Error::Kind::kNotFound, "agents", "trace {} not found", quote(name));
  MAKAR_TRY(const std::string text, read_file(path, kMaxTraceBytes));
  return read_trace(text, name, max);
}

}  // namespace

Result<std::vector<Json>> read_trace(std::string_view text, const std::string& name, size_t max) {
  std::vector<Json> out;
  size_t number = 0;
  for (size_t at = 0; at < text.size() && out.size() < max;) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;  // the last line is still being written
    MAKAR_TRY(Json line, parse_json(text.substr(at, end - at), fmt::format("{}.jsonl:{}", name, ++number),
                                    {kMaxTraceBytes, kMaxTraceDepth}));
    if (line.is_object()) {
      rename_field(line, "ask", "request");
      rename_field(line, "said", "reply");
      out.push_back(std::move(line));
    }
    at = end + 1;
  }
  return out;
}

Json waiting_request(const std::vector<Json>& lines) {
  Json waiting;
  for (const Json& line : lines) {
    if (line.contains("request") && line["request"].is_object()) waiting = line["request"];
    if (line.contains("reply") || line.contains("end")) waiting = nullptr;
  }
  return waiting;
}

Result<Json> answer_to(const Json& waiting, int64_t number, const Json& answer) {
  if (!waiting.is_object() || waiting.value("number", Json()) != Json(number))
    return error_of(Error::Kind::kNotFound, "number", "the agent is not waiting for an answer to request {}",
                    number);
  const bool question = waiting.contains("question");
  const char* key = question ? "text" : "allow";
  const Json value = answer.is_object() ? answer.value(key, Json()) : Json();
  if (question && (!value.is_string() || value.get_ref<const std::string&>().size() > kMaxAnswerBytes))
    return error_at(key, "expected a text of at most {} bytes", kMaxAnswerBytes);
  if (!question && !value.is_boolean()) return error_at(key, "expected true or false");
  return Json{{key, value}};
}

Result<Json> list_agents(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code code;
  size_t entries = 0;
  for (std::filesystem::directory_iterator it(folder, code), end;
       !code && it != end && ++entries < kMaxFolderEntries; it.increment(code)) {
    std::string name = it->path().filename().string();
    struct stat status = {};
    if (!name.ends_with(kTraceExtension) || !is_plain_name(name) ||
        ::stat(it->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode))
      continue;
    name.resize(name.size() - kTraceExtension.size());
    found.emplace_back(-status.st_mtime, std::move(name));
  }
  std::sort(found.begin(), found.end());
  Json out = Json::array();
  for (size_t i = 0; i < std::min(found.size(), kMaxTraces); ++i) {
    const auto first = trace_lines(folder, found[i].second, 1);
    Json question;
    if (first.ok() && !first->empty()) question = first->front().value("question", Json());
    if (!question.is_string()) continue;  // not a trace
    out.push_back({{"name", found[i].second}, {"question", question}, {"changed", -found[i].first}});
  }
  return out;
}

Result<Json> read_agent(const std::string& folder, const std::string& name) {
  MAKAR_TRY(auto lines, trace_lines(folder, name, SIZE_MAX));
  return Json{{"name", name}, {"lines", std::move(lines)}};
}

Status answer_agent(const std::string& folder, const std::string& name, int64_t number, const Json& answer) {
  MAKAR_TRY(const auto lines, trace_lines(folder, name, SIZE_MAX));
  MAKAR_TRY(const Json reply, answer_to(waiting_request(lines), number, answer));
  // The file gets its final name when it is complete, and only once: the agent reads it as soon as it exists.
  const std::string path = fmt::format("{}/{}.answer-{}.json", folder, name, number);
  const std::string text = dump(reply) + "\n";
  const std::string part = path + ".part";
  MAKAR_RETURN_IF_ERROR(write_file(part, text));
  const bool created = ::link(part.c_str(), path.c_str()) == 0;
  ::unlink(part.c_str());
  if (!created)
    return error_of(Error::Kind::kUnsupported, "number", "request {} has already been answered", number);
  return Done{};
}

}  // namespace makar
