#include "serve/files/batch.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/logged_reply.h"

namespace makar {
namespace {

constexpr size_t kMaxLines = 50000, kMaxLineErrors = 100, kMaxBatchLineBytes = size_t{8} << 20,
                 kMaxCustomIdBytes = 512;
constexpr size_t kMaxMetadataEntries = 16;
constexpr int kMaxBatchLineDepth = 64;
constexpr int64_t kWindowSeconds = 24 * 3600;

const char* const kEndpoints[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                  "/v1/responses", "/v1/moderations"};

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

Result<std::string> check_line(const Json& line, const std::string& endpoint) {
  if (!line.is_object()) return error_at("line", "expected an object, found {}", kind_of(line));
  MAKAR_TRY(std::string id, text_field(line, "custom_id"));
  if (id.empty() || id.size() > kMaxCustomIdBytes)
    return error_at("custom_id", "expected a text of 1 to {} bytes", kMaxCustomIdBytes);
  if (line.value("method", Json()) != Json("POST")) return error_at("method", "expected POST");
  if (line.value("url", Json()) != Json(endpoint))
    return error_at("url", "expected {}, the endpoint of the batch", endpoint);
  if (!line.contains("body") || !line["body"].is_object()) return error_at("body", "expected an object");
  return id;
}

}  // namespace

Result<Json> BatchInput::body(const BatchLine& line) const {
  MAKAR_TRY(Json json, parse_json(text_of(*file).substr(line.begin, line.end - line.begin), "line"));
  return std::move(json["body"]);
}

Result<BatchInput> read_batch(const std::string& path, const std::string& endpoint) {
  BatchInput out;
  MAKAR_TRY(out.file, MappedFile::open(path));
  const std::string_view text = text_of(*out.file);
  std::set<std::string> ids;
  const auto add_error = [&](size_t number, const Error& error) {
    out.errors.push_back(
        {{"code", "invalid_line"}, {"message", error.message}, {"param", error.place}, {"line", number}});
  };
  size_t number = 0;
  for (size_t at = 0; at < text.size() && out.errors.size() < kMaxLineErrors;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const size_t begin = at;
    at = end + 1, ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const auto json = parse_json(line, "line", {kMaxBatchLineBytes, kMaxBatchLineDepth});
    const auto id = json.ok() ? check_line(*json, endpoint) : Result<std::string>(json.error());
    if (!id.ok()) {
      add_error(number, id.error());
    } else if (!ids.insert(*id).second) {
      add_error(number, error_at("custom_id", "{} is given twice", quote(*id)));
    } else if (out.lines.size() == kMaxLines) {
      add_error(number, error_at("line", "a batch may have at most {} lines", kMaxLines));
      break;
    } else {
      out.lines.push_back({*id, begin, end});
    }
  }
  if (out.lines.empty() && out.errors.empty()) add_error(1, error_at("line", "the file has no lines"));
  return out;
}

std::string batch_answer(const std::string& custom_id, int status, const std::string& body) {
  const auto json = parse_json(body, "answer");
  return dump({{"id", "batch_req_" + random_id()},
               {"custom_id", custom_id},
               {"response",
                {{"status_code", status},
                 {"request_id", random_id()},
                 {"body", json.ok() ? *json : Json(body)}}},
               {"error", nullptr}}) +
         "\n";
}

Status recover_answers(const std::string& path, std::set<std::string>& custom_ids) {
  if (!is_file(path)) return Done{};
  size_t valid_bytes = 0;
  {
    MAKAR_TRY(const auto file, MappedFile::open(path));
    const std::string_view text = text_of(*file);
    for (size_t end = 0; (end = text.find('\n', valid_bytes)) != text.npos; valid_bytes = end + 1) {
      const auto line = parse_json(text.substr(valid_bytes, end - valid_bytes), "line");
      if (!line.ok() || !line->is_object() || !line->contains("custom_id")) break;
      custom_ids.insert((*line)["custom_id"].get<std::string>());
    }
  }
  if (::truncate(path.c_str(), static_cast<off_t>(valid_bytes)) != 0) return io_error(path, "truncate");
  return Done{};
}

Result<Json> new_batch(const Json& body) {
  MAKAR_TRY(const std::string input, text_field(body, "input_file_id"));
  if (input.empty()) return error_at("input_file_id", "is missing; expected the id of a file of requests");
  MAKAR_TRY(const std::string endpoint, text_field(body, "endpoint"));
  if (std::find(std::begin(kEndpoints), std::end(kEndpoints), endpoint) == std::end(kEndpoints))
    return error_at("endpoint", "expected {}, got {}", fmt::join(kEndpoints, ", "), quote(endpoint));
  MAKAR_TRY(const std::string window, text_field(body, "completion_window", "24h"));
  if (window != "24h") return error_at("completion_window", "expected 24h, got {}", quote(window));
  MAKAR_TRY(const Json metadata, object_field(body, "metadata"));
  if (metadata.size() > kMaxMetadataEntries)
    return error_at("metadata", "has {} entries; the limit is {}", metadata.size(), kMaxMetadataEntries);
  const int64_t now = std::time(nullptr);
  return Json{{"id", "batch_" + random_id()},
              {"object", "batch"},
              {"endpoint", endpoint},
              {"errors", nullptr},
              {"input_file_id", input},
              {"completion_window", window},
              {"status", "validating"},
              {"output_file_id", nullptr},
              {"error_file_id", nullptr},
              {"created_at", now},
              {"in_progress_at", nullptr},
              {"expires_at", now + kWindowSeconds},
              {"finalizing_at", nullptr},
              {"completed_at", nullptr},
              {"failed_at", nullptr},
              {"expired_at", nullptr},
              {"cancelling_at", nullptr},
              {"cancelled_at", nullptr},
              {"request_counts", {{"total", 0}, {"completed", 0}, {"failed", 0}}},
              {"metadata", metadata}};
}

bool is_over(const Json& batch) {
  const Json& status = batch["status"];
  return status == "completed" || status == "failed" || status == "expired" || status == "cancelled";
}

}  // namespace makar
