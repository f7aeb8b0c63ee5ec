#include "base/json.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/quote.h"

template <>
std::string nlohmann::ordered_json::dump(int indent, char indent_char, bool ensure_ascii,
                                         error_handler_t error_handler) const {
  std::string text;
  nlohmann::detail::serializer<nlohmann::ordered_json> serializer(
      nlohmann::detail::output_adapter<char, std::string>(text), indent_char, error_handler);
  serializer.dump(*this, indent >= 0, ensure_ascii, static_cast<unsigned int>(std::max(indent, 0)));
  return text;
}

namespace makar {
namespace {

// Builds the value without recursion and checks depth and duplicate keys.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string place, const JsonLimits& limits) : place_(std::move(place)), limits_(limits) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(v); }
  bool number_unsigned(number_unsigned_t v) override { return put(v); }
  bool number_float(number_float_t v, const string_t&) override { return put(v); }
  bool string(string_t& v) override { return put(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& v) override {
    key_ = std::move(v);
    return true;
  }
  bool parse_error(std::size_t offset, const std::string&, const nlohmann::detail::exception& e) override {
    std::string reason = e.what();
    if (const auto bracket = reason.find("] "); bracket != std::string::npos)
      reason = reason.substr(bracket + 2);
    if (reason.size() > 300)
      reason = reason.substr(0, 300) + "...";  // the parser may quote a whole token, of any length
    std::replace_if(
        reason.begin(), reason.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x7f; }, '?');
    error_ = error_at(fmt::format("{}: byte {}", place_, offset), "not valid JSON: {}", reason);
    return false;
  }

  Json take() { return std::move(root_); }
  Error error() const { return error_; }

 private:
  bool fail(const std::string& reason) {
    error_ = error_at(place_, "JSON is refused: {}", reason);
    return false;
  }
  Json* place(Json value) {
    if (stack_.empty()) return &(root_ = std::move(value));
    Json& top = *stack_.back();
    if (top.is_array()) return &top.get_ref<Json::array_t&>().emplace_back(std::move(value));
    // Appended without the linear search of ordered_json; close() finds duplicate keys.
    auto& fields = static_cast<std::vector<Json::object_t::value_type>&>(top.get_ref<Json::object_t&>());
    return &fields.emplace_back(key_, std::move(value)).second;
  }
  bool put(Json value) { return place(std::move(value)), true; }
  bool open(Json value) {
    if (static_cast<int>(stack_.size()) >= limits_.depth)
      return fail(fmt::format("nested deeper than {} levels", limits_.depth));
    stack_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    const Json& closed = *stack_.back();
    stack_.pop_back();
    if (!closed.is_object()) return true;
    const std::string* duplicate = duplicate_key(closed.get_ref<const Json::object_t&>());
    return !duplicate || fail("the key " + quote(*duplicate) + " is given twice");
  }
  // With a hash table: vocabularies have 100,000 keys and more. If many keys collide, the keys are sorted
  // instead.
  static const std::string* duplicate_key(const Json::object_t& fields) {
    size_t size = 4, steps = 0;
    while (size < fields.size() * 2) size *= 2;
    std::vector<std::pair<size_t, const std::string*>> slots(size, {0, nullptr});
    for (const auto& field : fields) {
      const size_t hash = std::hash<std::string_view>()(field.first);
      size_t at = hash & (size - 1);
      for (; slots[at].second; at = (at + 1) & (size - 1)) {
        if (slots[at].first == hash && *slots[at].second == field.first) return &field.first;
        if (++steps > 16 * size) return duplicate_key_by_sorting(fields);
      }
      slots[at] = {hash, &field.first};
    }
    return nullptr;
  }
  static const std::string* duplicate_key_by_sorting(const Json::object_t& fields) {
    std::vector<const std::string*> keys;
    for (const auto& field : fields) keys.push_back(&field.first);
    std::sort(keys.begin(), keys.end(), [](const auto* a, const auto* b) { return *a < *b; });
    const auto duplicate =
        std::adjacent_find(keys.begin(), keys.end(), [](const auto* a, const auto* b) { return *a == *b; });
    return duplicate == keys.end() ? nullptr : *duplicate;
  }

  std::string place_;
  JsonLimits limits_;
  Json root_;
  std::vector<Json*> stack_;
  std::string key_;
  Error error_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& place, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return error_of(Error::Kind::kLimit, place, "has {} bytes of JSON; the limit is {}", text.size(),
                    limits.bytes);
  // The parser would treat a zero byte as the end and ignore what follows it.
  if (const size_t zero = text.find('\0'); zero != text.npos)
    return error_at(fmt::format("{}: byte {}", place, zero), "not valid JSON: found a zero byte");
  Builder builder(place, limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return builder.error();
  return builder.take();
}

Result<Json> read_json(const std::string& path, const JsonLimits& limits) {
  MAKAR_TRY(const std::string text, read_file(path, limits.bytes));
  return parse_json(text, path, limits);
}

std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace makar
