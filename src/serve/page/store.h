// Conversations on disk: each is a tree of messages, since a message may be edited or answered again.
// Ratings and choices between answers become preference data.
#pragma once
#include <mutex>
#include <optional>

#include "base/json.h"
#include "serve/page/sqlite.h"

namespace makar {

struct NewMessage {
  int64_t parent = 0;  // 0: the first of its branch
  std::string role;    // "user" or "assistant"
  std::string content;
  Json meta = Json::object();  // what the page keeps beside it: the model, tokens, times
};

struct ConversationChange {
  std::optional<std::string> title, system;
  std::optional<Json> settings;
  std::optional<int64_t> leaf;  // the last message of the branch that is shown; 0: none
};

// For any thread. Each owner sees its own conversations alone.
class Store {
 public:
  static constexpr size_t kTitleBytes = 400, kSystemBytes = size_t{64} << 10,
                          kSettingsBytes = size_t{16} << 10, kContentBytes = size_t{1} << 20,
                          kMetaBytes = size_t{1} << 20, kConversationBytes = size_t{32} << 20;
  static constexpr int64_t kMessages = 5000, kConversations = 20000, kListed = 1000;

  // Makes the file and its folder where they are absent.
  static Result<std::unique_ptr<Store>> open(const std::string& path);

  // The latest first: id, title, created, updated, messages.
  Result<Json> list(const std::string& owner);
  Result<Json> create(const std::string& owner, const ConversationChange& with);
  // With "messages": id, parent, role, content, meta, rating, created.
  Result<Json> conversation(const std::string& owner, int64_t id);
  Status change(const std::string& owner, int64_t id, const ConversationChange& change);
  Status remove(const std::string& owner, int64_t id);
  // The new message is the conversation's leaf.
  Result<Json> add(const std::string& owner, int64_t conversation, const NewMessage& message);
  Status rate(const std::string& owner, int64_t message, int64_t rating);  // -1, 0 or 1
  // Of answers to the same message, one is better than the others.
  Status prefer(const std::string& owner, int64_t chosen, const std::vector<int64_t>& rejected);
  // Lines of {"prompt", "chosen", "rejected"}: choices, and answers rated up beside ones rated down. The
  // prompt is the conversation before them, as messages.
  Result<std::string> preferences(const std::string& owner);

 private:
  explicit Store(Database database) : database_(std::move(database)) {}
  Status prepare();
  Result<Json> read_conversation(const std::string& owner, int64_t id) const;
  Status check_conversation(const std::string& owner, int64_t id) const;
  Status check_message(int64_t id, int64_t conversation) const;
  std::mutex mutex_;
  Database database_;
};

// Where the environment says that data of users belong: $XDG_DATA_HOME or ~/.local/share. Empty: nowhere.
std::string default_store_path();

// A conversation as a person reads it: the branch that ends at its leaf.
std::string as_markdown(const Json& conversation);

}  // namespace makar
