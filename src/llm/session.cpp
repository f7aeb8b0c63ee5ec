#include "llm/session.h"

#include "base/quote.h"

namespace makar {

Result<Json> read_session(const std::string& text, const std::string& place) {
  if (text.size() > kMaxSessionBytes)
    return error_of(Error::Kind::kLimit, place, "has {} bytes; the limit of a session is {}", text.size(),
                    kMaxSessionBytes);
  MAKAR_TRY(const Json json, parse_json(text, place, {kMaxSessionBytes, 16}));
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array())
    return error_at(place, "expected an object with a list \"messages\"");
  if (json["messages"].size() > kMaxSessionMessages)
    return error_of(Error::Kind::kLimit, place, "has {} messages; the limit of a session is {}",
                    json["messages"].size(), kMaxSessionMessages);
  Json messages = Json::array();
  for (size_t i = 0; i < json["messages"].size(); ++i) {
    const Json& m = json["messages"][i];
    const auto has_text = [&](const char* key) {
      return m.is_object() && m.contains(key) && m[key].is_string();
    };
    if (!has_text("role") || !has_text("content"))
      return error_at(place, "message {} needs a \"role\" and a \"content\", both text", i + 1);
    const std::string role = m["role"];
    if (role != "system" && role != "user" && role != "assistant")
      return error_at(place, "message {} has the role {}; expected system, user or assistant", i + 1,
                      quote(role));
    messages.push_back({{"role", role}, {"content", m["content"]}});
  }
  return messages;
}

std::string write_session(const Json& messages) { return dump(Json{{"messages", messages}}, 1) + "\n"; }

}  // namespace makar
