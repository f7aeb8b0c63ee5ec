// Conversations on disk: each is a tree of messages, because messages can be edited and answers regenerated.
// Ratings and choices between answers become preference data.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/json.h"
#include "database/sqlite.h"

namespace makar {

struct NewMessage {
  int64_t parent = 0;  // 0: a root message
  std::string role;    // "user" or "assistant"
  std::string content;
  Json meta = Json::object();  // page data: model, tokens, times
};

struct MessageChange {
  std::optional<std::string> content;
  std::optional<Json> meta;
};

struct ConversationChange {
  std::optional<std::string> title, system;
  std::optional<Json> settings;
  std::optional<int64_t> leaf;  // last message of the displayed branch; 0: none
};

// Thread-safe. Each owner sees only its own conversations.
class Store {
 public:
  // Limits.
  static constexpr size_t kMaxTitleBytes = 400, kMaxSystemBytes = size_t{64} << 10,
                          kMaxSettingsBytes = size_t{16} << 10, kMaxContentBytes = size_t{1} << 20,
                          kMaxMetaBytes = size_t{1} << 20, kMaxConversationBytes = size_t{32} << 20,
                          kMaxSearchBytes = 1000;
  static constexpr int64_t kMaxMessagesPerConversation = 5000, kMaxListedConversations = 1000;
  // Per owner; the file is limited to 4 GiB.
  static constexpr int64_t kMaxConversations = 20000, kMaxOwnerBytes = int64_t{1} << 30;

  // An error if a field has more than `max` bytes.
  static Status check_size(const char* field, size_t bytes, size_t max);
  // Creates the file and its folder if absent.
  static Result<std::unique_ptr<Store>> open(const std::string& path);

  // Newest first: id, title, created, updated, messages.
  Result<Json> list(const std::string& owner);
  Result<Json> create(const std::string& owner, const ConversationChange& fields);
  // With "messages": id, parent, role, content, meta, rating, created.
  Result<Json> conversation(const std::string& owner, int64_t id);
  // Bytes of its messages; 0 if it does not exist.
  Result<int64_t> bytes_of(const std::string& owner, int64_t id);
  Status change(const std::string& owner, int64_t id, const ConversationChange& change);
  Status remove(const std::string& owner, int64_t id);
  // The new message becomes the conversation's leaf.
  Result<Json> add(const std::string& owner, int64_t conversation, const NewMessage& message);
  Status rate(const std::string& owner, int64_t message, int64_t rating);  // -1, 0 or 1
  Status edit(const std::string& owner, int64_t message, const MessageChange& change);
  // Removes a message and all its descendants. Returns the "leaf" of the branch now displayed.
  Result<Json> remove_message(const std::string& owner, int64_t message);
  // "found": conversations with a message that contains the text (id, excerpt), newest first. "complete"
  // is false if the time limit was reached.
  Result<Json> search(const std::string& owner, const std::string& text);
  // Records that one answer is preferred over others to the same message.
  Status prefer(const std::string& owner, int64_t chosen, const std::vector<int64_t>& rejected);
  // Explicit choices, and pairs of siblings rated up and down.
  struct Preference {
    int64_t chosen, rejected;
  };
  Result<std::vector<Preference>> preferences(const std::string& owner);
  // A JSON line {"prompt", "chosen", "rejected"}; the prompt is the list of messages before the answers.
  // Empty if the answers have been deleted.
  Result<std::string> preference_line(const std::string& owner, const Preference& preference);

 private:
  explicit Store(Database database) : database_(std::move(database)) {}
  Status prepare();
  Result<Json> read_conversation(const std::string& owner, int64_t id) const;
  Status check_conversation(const std::string& owner, int64_t id) const;
  Status check_message(int64_t id, int64_t conversation) const;
  std::mutex mutex_;
  Database database_;
};

// The default database path, in $XDG_DATA_HOME or ~/.local/share. Empty if neither is known.
std::string default_store_path();

// Exports an owner's preferences as JSON lines, in pieces: each line repeats the conversation before the
// answer, so the export may be many times larger than the store.
class PreferenceExport {
 public:
  static Result<std::shared_ptr<PreferenceExport>> of(Store& store, const std::string& owner);
  Result<std::string> next();  // about 256 KiB or one line; empty at the end

 private:
  PreferenceExport(Store& store, std::string owner, std::vector<Store::Preference> preferences)
      : store_(store), owner_(std::move(owner)), preferences_(std::move(preferences)) {}
  Store& store_;
  const std::string owner_;
  const std::vector<Store::Preference> preferences_;
  size_t next_ = 0;  // index of the next preference
};

// The branch that ends at the conversation's leaf, as Markdown.
std::string as_markdown(const Json& conversation);

}  // namespace makar
