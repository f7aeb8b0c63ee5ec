#include "serve/page/page.h"

#include <charconv>

#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/page/agents.h"
#include "serve/page/results.h"
#include "serve/page/runs.h"

namespace makar {
namespace {

constexpr size_t kMaxRejected = 128;
constexpr int64_t kMaxId = int64_t{1} << 53;  // the largest integer that JSON numbers represent exactly

Error unknown_route(const HttpRequest& request) {
  return error_of(Error::Kind::kNotFound, "path", "no route for {} {}", request.method, quote(request.path));
}

Result<int64_t> number_of(const std::string& text, const char* place) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0 || value > kMaxId)
    return error_at(place, "expected a number, found {}", quote(text));
  return value;
}

// "/makar/a/b%20c" -> {"a", "b c"}
std::vector<std::string> segments_of(const std::string& path) {
  std::vector<std::string> out(1);
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  };
  for (size_t i = std::string("/makar/").size(); i < path.size(); ++i) {
    if (path[i] == '/') {
      out.emplace_back();
    } else if (path[i] == '%' && i + 2 < path.size() && digit(path[i + 1]) >= 0 && digit(path[i + 2]) >= 0) {
      out.back().push_back(static_cast<char>(digit(path[i + 1]) * 16 + digit(path[i + 2])));
      i += 2;
    } else {
      out.back().push_back(path[i]);
    }
  }
  return out;
}

// 0 without the key.
Result<int64_t> query_number(const std::string& query, const char* key) {
  const auto value = query_value(query, key);
  if (!value) return 0;
  return number_of(*value, key);
}

Result<ConversationChange> read_change(const Json& body) {
  ConversationChange out;
  if (body.contains("title")) {
    MAKAR_TRY(out.title, text_field(body, "title"));
  }
  if (body.contains("system")) {
    MAKAR_TRY(out.system, text_field(body, "system"));
  }
  if (body.contains("settings")) {
    MAKAR_TRY(out.settings, object_field(body, "settings"));
  }
  if (body.contains("leaf")) {
    MAKAR_TRY(out.leaf, integer_field(body, "leaf", 0, kMaxId, 0));
  }
  return out;
}

Result<NewMessage> read_message(const Json& body) {
  NewMessage out;
  MAKAR_TRY(out.parent, integer_field(body, "parent", 0, kMaxId, 0));
  MAKAR_TRY(out.role, text_field(body, "role"));
  MAKAR_TRY(out.content, text_field(body, "content"));
  if (body.contains("meta")) {
    MAKAR_TRY(out.meta, object_field(body, "meta"));
  }
  return out;
}

const Json kOk = {{"ok", true}};

Result<Json> prefer(Store& store, const std::string& owner, const Json& body) {
  MAKAR_TRY(const int64_t chosen, integer_field(body, "chosen", 1, kMaxId, 0));
  if (!body.contains("rejected") || !body["rejected"].is_array() || body["rejected"].empty() ||
      body["rejected"].size() > kMaxRejected)
    return error_at("rejected", "expected a list of 1 to {} message ids", kMaxRejected);
  std::vector<int64_t> rejected;
  for (const Json& id : body["rejected"]) {
    if (!id.is_number_integer()) return error_at("rejected", "expected message ids");
    rejected.push_back(id.get<int64_t>());
  }
  MAKAR_RETURN_IF_ERROR(store.prefer(owner, chosen, rejected));
  return kOk;
}

// Sets the rating, or content and meta.
Status change_message(Store& store, const std::string& owner, int64_t id, const Json& body) {
  MessageChange change;
  if (body.contains("content")) {
    MAKAR_TRY(change.content, text_field(body, "content"));
  }
  if (body.contains("meta")) {
    MAKAR_TRY(change.meta, object_field(body, "meta"));
  }
  if (change.content || change.meta) MAKAR_RETURN_IF_ERROR(store.edit(owner, id, change));
  if (!body.contains("rating")) {
    if (change.content || change.meta) return Done{};
    return error_at("rating", "is missing; set rating, content or meta");
  }
  MAKAR_TRY(const int64_t rating, integer_field(body, "rating", -1, 1, 0));
  return store.rate(owner, id, rating);
}

HttpResponse text_response(std::string text, const char* type) {
  HttpResponse out;
  out.body = std::move(text), out.type = type;
  return out;
}

HttpResponse json_response(const Json& value) {
  return text_response(dump(value) + "\n", "application/json");
}

}  // namespace

Result<Store*> Page::store() {
  if (options_.store == "none" || options_.store.empty())
    return error_of(Error::Kind::kUnsupported, "store",
                    "this server stores no conversations; start it with --store FILE");
  const std::lock_guard lock(mutex_);
  if (!store_) {
    MAKAR_TRY(store_, Store::open(options_.store));
  }
  return store_.get();
}

Status Page::open_store() {
  if (options_.store == "none" || options_.store.empty()) return Done{};
  MAKAR_TRY([[maybe_unused]] Store* const opened, store());
  return Done{};
}

// conversations[/ID[/messages]]
Result<Json> Page::conversations(const HttpRequest& request, const std::string& owner,
                                 const std::vector<std::string>& path) {
  MAKAR_TRY(Store* const store, this->store());
  const bool post = request.method == "POST";
  const auto body = [&] { return read_body(request.body); };
  if (path.size() == 1) {
    if (!post) {
      MAKAR_TRY(Json list, store->list(owner));
      return Json{{"conversations", std::move(list)}};
    }
    MAKAR_TRY(const Json fields, body());
    MAKAR_TRY(const ConversationChange change, read_change(fields));
    return store->create(owner, change);
  }
  MAKAR_TRY(const int64_t id, number_of(path[1], "conversation"));
  if (path.size() == 3 && path[2] == "messages" && post) {
    MAKAR_TRY(const Json fields, body());
    MAKAR_TRY(const NewMessage message, read_message(fields));
    return store->add(owner, id, message);
  }
  if (path.size() != 2) return unknown_route(request);
  if (request.method == "DELETE") {
    MAKAR_RETURN_IF_ERROR(store->remove(owner, id));
    return kOk;
  }
  if (!post) return store->conversation(owner, id);
  MAKAR_TRY(const Json fields, body());
  MAKAR_TRY(const ConversationChange change, read_change(fields));
  MAKAR_RETURN_IF_ERROR(store->change(owner, id, change));
  return kOk;
}

// A conversation is in memory as rows, JSON and text; an escaped byte takes six in JSON.
Result<int64_t> Page::memory_of(const HttpRequest& request, const std::string& owner) {
  const std::vector<std::string> path = segments_of(request.path);
  const bool get = request.method == "GET" || request.method == "HEAD";
  if (!get || path[0] != "conversations" || path.size() < 2) return 0;
  MAKAR_TRY(const int64_t id, number_of(path[1], "conversation"));
  MAKAR_TRY(Store* const store, this->store());
  MAKAR_TRY(const int64_t bytes, store->bytes_of(owner, id));
  return 6 * bytes;
}

Result<HttpResponse> Page::rate(const HttpRequest& request, const std::vector<std::string>& path) {
  const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
  if (path.size() == 1 && get) {
    MAKAR_TRY(Json studies, ratings_.list());
    return json_response({{"folder", options_.ratings}, {"studies", std::move(studies)}});
  }
  if (path.size() == 2 && post) {
    MAKAR_TRY(Json body, read_body(request.body));
    MAKAR_RETURN_IF_ERROR(ratings_.add(path[1], std::move(body)));
    return json_response(kOk);
  }
  if (path.size() == 3 && path[2] == "next" && post) {
    MAKAR_TRY(const Json body, read_body(request.body));
    MAKAR_TRY(const std::string rater, text_field(body, "rater"));
    MAKAR_TRY(const int64_t after, integer_field(body, "after", -1, kMaxId, -1));
    MAKAR_TRY(const Json item, ratings_.next(path[1], rater, after));
    return json_response(item);
  }
  if (path.size() == 3 && path[2] == "report" && get) {
    MAKAR_TRY(const Json report, ratings_.report(path[1]));
    return json_response(report);
  }
  if (path.size() == 3 && path[2] == "preferences.jsonl" && get) {
    MAKAR_TRY(std::string lines, ratings_.preferences(path[1]));
    return text_response(std::move(lines), "application/jsonl");
  }
  return unknown_route(request);
}

Result<HttpResponse> Page::agents(const HttpRequest& request, const std::vector<std::string>& path) {
  const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
  if (path.size() == 1 && get) {
    MAKAR_TRY(Json traces, list_agents(options_.agents));
    return json_response({{"folder", options_.agents}, {"agents", std::move(traces)}});
  }
  if (path.size() == 2 && get) {
    MAKAR_TRY(const Json trace, read_agent(options_.agents, path[1]));
    return json_response(trace);
  }
  if (path.size() == 3 && path[2] == "answers" && post) {
    MAKAR_TRY(const Json body, read_body(request.body));
    MAKAR_TRY(const int64_t number, integer_field(body, "number", 1, kMaxId, 0));
    MAKAR_RETURN_IF_ERROR(answer_agent(options_.agents, path[1], number, body));
    return json_response(kOk);
  }
  return unknown_route(request);
}

Result<HttpResponse> Page::markdown(const std::string& owner, const std::string& id_text) {
  MAKAR_TRY(Store* const store, this->store());
  MAKAR_TRY(const int64_t id, number_of(id_text, "conversation"));
  MAKAR_TRY(const Json conversation, store->conversation(owner, id));
  return text_response(as_markdown(conversation), "text/markdown; charset=utf-8");
}

Result<HttpResponse> Page::preferences(const HttpRequest& request, const std::string& owner) {
  MAKAR_TRY(Store* const store, this->store());
  if (request.method == "POST") {
    MAKAR_TRY(const Json body, read_body(request.body));
    MAKAR_TRY(const Json out, prefer(*store, owner, body));
    return json_response(out);
  }
  MAKAR_TRY(const auto lines, PreferenceExport::of(*store, owner));
  HttpResponse out = text_response("", "application/jsonl");
  out.body_source = [lines](const GivePiece& give) {
    auto piece = lines->next();
    give(piece.ok() ? std::optional(std::move(*piece)) : std::nullopt);
  };
  return out;
}

Result<HttpResponse> Page::message(const HttpRequest& request, const std::string& owner,
                                   const std::string& id_text) {
  MAKAR_TRY(Store* const store, this->store());
  MAKAR_TRY(const int64_t id, number_of(id_text, "message"));
  if (request.method != "POST") {
    MAKAR_TRY(const Json new_leaf, store->remove_message(owner, id));
    return json_response(new_leaf);
  }
  MAKAR_TRY(const Json body, read_body(request.body));
  MAKAR_RETURN_IF_ERROR(change_message(*store, owner, id, body));
  return json_response(kOk);
}

Result<HttpResponse> Page::search(const HttpRequest& request, const std::string& owner) {
  MAKAR_TRY(Store* const store, this->store());
  MAKAR_TRY(const Json body, read_body(request.body));
  MAKAR_TRY(const std::string text, text_field(body, "text"));
  MAKAR_TRY(const Json found, store->search(owner, text));
  return json_response(found);
}

Result<HttpResponse> Page::results(const std::vector<std::string>& path) {
  if (path.size() == 1) {
    MAKAR_TRY(Json list, list_results(options_.results));
    return json_response({{"folder", options_.results}, {"results", std::move(list)}});
  }
  MAKAR_TRY(const Json one, read_results(options_.results, path[1]));
  return json_response(one);
}

Result<HttpResponse> Page::runs(const HttpRequest& request, const std::vector<std::string>& path) {
  if (path.size() == 1) {
    MAKAR_TRY(Json list, list_runs(options_.runs));
    return json_response({{"folder", options_.runs}, {"runs", std::move(list)}});
  }
  MAKAR_TRY(const int64_t offset, query_number(request.query, "offset"));
  MAKAR_TRY(const int64_t file, query_number(request.query, "file"));
  MAKAR_TRY(const Json run, read_run(options_.runs, path[1], offset, file));
  return json_response(run);
}

Result<HttpResponse> Page::answer(const HttpRequest& request, const std::string& owner) {
  const std::vector<std::string> path = segments_of(request.path);
  const std::string& route = path[0];
  const size_t size = path.size();
  const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
  if (route == "conversations" && size == 3 && path[2] == "markdown" && get) return markdown(owner, path[1]);
  if (route == "conversations") {
    MAKAR_TRY(const Json out, conversations(request, owner, path));
    return json_response(out);
  }
  if (route == "preferences.jsonl" && size == 1 && get) return preferences(request, owner);
  if (route == "preferences" && size == 1 && post) return preferences(request, owner);
  if (route == "messages" && size == 2 && !get) return message(request, owner, path[1]);
  if (route == "search" && size == 1 && post) return search(request, owner);
  if (route == "ratings") return rate(request, path);
  if (route == "agents") return agents(request, path);
  if (route == "results" && size <= 2 && get) return results(path);
  if (route == "runs" && size <= 2 && get) return runs(request, path);
  return unknown_route(request);
}

}  // namespace makar
