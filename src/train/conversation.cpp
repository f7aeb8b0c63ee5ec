#include "train/conversation.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/nearest.h"
#include "base/sha256.h"
#include "ops/softmax.h"

namespace makar {
namespace {

constexpr int64_t kShortIds = 65536;  // ids of larger vocabularies are stored in 32 bits, not 16

// Byte ranges of the assistant's messages in the rendering, from message `first` on.
Result<std::vector<Span>> assistant_spans(const ChatTemplate& chat, const Json& messages,
                                          const std::string& full_text, size_t first) {
  std::vector<Span> out;
  for (size_t i = first; i < messages.size(); ++i) {
    if (messages[i].value("role", "") != "assistant") continue;
    ChatInput before, through;
    before.add_generation_prompt = true;
    for (size_t j = 0; j < i; ++j) before.messages.push_back(messages[j]);
    through.messages = before.messages;
    through.messages.push_back(messages[i]);
    if (before.messages.empty())
      return error_at(
          "", "the conversation begins with an assistant message; it needs a user or system message first");
    MAKAR_TRY(const ChatRendering prefix, chat.render(before));
    MAKAR_TRY(const ChatRendering turn, chat.render(through));
    const std::string a = prefix.text(), b = turn.text();
    if (!b.starts_with(a) || !full_text.starts_with(b))
      return error_at(
          "",
          "turn {} changes how the chat template renders earlier turns, so the tokens of its answer are "
          "unknown; add a generation block to the template",
          i);
    out.push_back({static_cast<uint32_t>(a.size()), static_cast<uint32_t>(b.size())});
  }
  return out;
}

// The byte of the rendering at which message `first` begins.
Result<size_t> turn_start(const ChatTemplate& chat, const Json& messages, const std::string& full_text,
                          size_t first) {
  if (first == 0) return size_t{0};
  ChatInput before;
  for (size_t i = 0; i < first; ++i) before.messages.push_back(messages[i]);
  MAKAR_TRY(const ChatRendering rendering, chat.render(before));
  const std::string text = rendering.text();
  if (!full_text.starts_with(text))
    return error_at("",
                    "turn {} changes how the chat template renders earlier turns; use a template that only "
                    "appends to the earlier turns",
                    first);
  return text.size();
}

}  // namespace

ConversationEncoder::ConversationEncoder(Tokenizer tokenizer, ChatTemplate chat, ConversationOptions options)
    : tokenizer_(tokenizer), chat_(std::move(chat)), encoder_(tokenizer), o_(options) {}

std::string ConversationEncoder::plain_template(const std::string& end_token) {
  std::string end;
  for (const char c : end_token) end += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return "{% for m in messages %}{% if m['role'] == 'assistant' %}### Response:\n{% generation %}{{ "
         "m['content'] }}{{ '" +
         end +
         "' }}{% endgeneration %}\n\n{% elif m['role'] == 'system' %}{{ m['content'] }}\n\n{% else %}### "
         "Instruction:\n{{ "
         "m['content'] }}\n\n{% endif %}{% endfor %}{% if add_generation_prompt %}### Response:\n{% endif %}";
}

Result<MaskedTokens> ConversationEncoder::encode(const Json& messages, size_t prompt_turns) const {
  ChatInput input;
  input.messages = messages;
  MAKAR_TRY(const ChatRendering rendering, chat_.render(input));
  MAKAR_TRY(const ChatEncoding encoded, encoder_.encode(rendering));
  MaskedTokens out;
  out.ids.assign(encoded.ids.begin(), encoded.ids.end());
  if (o_.train_on_inputs) {
    out.loss_mask.assign(out.ids.size(), 1);
  } else if (chat_.has_generation()) {
    out.loss_mask = encoded.assistant;
    MAKAR_TRY(const size_t start, turn_start(chat_, messages, rendering.text(), prompt_turns));
    for (size_t i = 0; i < out.ids.size(); ++i)
      if (encoded.offsets[i].end <= start) out.loss_mask[i] = 0;
  } else {
    MAKAR_TRY(const auto spans, assistant_spans(chat_, messages, rendering.text(), prompt_turns));
    out.loss_mask.assign(out.ids.size(), 0);
    for (size_t i = 0; i < out.ids.size(); ++i)
      for (const Span& s : spans)
        if (encoded.offsets[i].end > s.begin && encoded.offsets[i].begin < s.end) out.loss_mask[i] = 1;
  }
  const auto max = static_cast<size_t>(o_.sequence_len);
  if (o_.keep_end) {
    size_t end = out.ids.size();
    while (end > 0 && !out.loss_mask[end - 1]) --end;
    out.ids.resize(end), out.loss_mask.resize(end);
  }
  if (out.ids.size() > max) {
    const auto extra = static_cast<std::ptrdiff_t>(o_.keep_end ? out.ids.size() - max : 0);
    out.ids.erase(out.ids.begin(), out.ids.begin() + extra);
    out.loss_mask.erase(out.loss_mask.begin(), out.loss_mask.begin() + extra);
    out.ids.resize(max), out.loss_mask.resize(max);
  }
  if (std::count(out.loss_mask.begin() +
                     std::min<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(out.loss_mask.size())),
                 out.loss_mask.end(), 1) == 0)
    return error_at("", "the {} {} tokens have no assistant turn to train on", o_.keep_end ? "last" : "first",
                    max);
  return out;
}

Result<std::vector<int64_t>> ConversationEncoder::encode_prompt(const Json& messages) const {
  ChatInput input;
  input.messages = messages, input.add_generation_prompt = true;
  MAKAR_TRY(const ChatRendering rendering, chat_.render(input));
  MAKAR_TRY(const ChatEncoding encoded, encoder_.encode(rendering));
  return std::vector<int64_t>(encoded.ids.begin(), encoded.ids.end());
}

ConversationWriter::ConversationWriter(const std::string& folder, int64_t vocab)
    : folder_(folder),
      vocab_(vocab),
      train_(folder, "train", vocab > kShortIds, true),
      validation_(folder, "validation", vocab > kShortIds, true) {}

Status ConversationWriter::add(const MaskedTokens& tokens, bool validation) {
  const std::vector<uint32_t> ids(tokens.ids.begin(), tokens.ids.end());
  return (validation ? validation_ : train_).add(ids, true, tokens.loss_mask);
}

Status ConversationWriter::finish() {
  MAKAR_TRY(const Json train, train_.finish());
  MAKAR_TRY(const Json validation, validation_.finish());
  const Json manifest = {
      {"format", "makar-tokens-1"},
      {"bits", vocab_ > kShortIds ? 32 : 16},
      {"vocab_size", vocab_},
      {"splits", {{"train", {{"shards", train}}}, {"validation", {{"shards", validation}}}}}};
  return write_file(folder_ + "/manifest.json", manifest.dump(2) + "\n");
}

Result<ConversationsRead> read_conversations(const DataPath& path, const std::string& type,
                                             const ConversationEncoder& encoder, ValidationSplit& split,
                                             ConversationWriter& to) {
  ConversationsRead out;
  std::optional<Schema> requested;
  if (!type.empty() && !(requested = schema_named(type)))
    return error_at("datasets", "unknown type '{}'{}", type, did_you_mean(type, schema_names()));
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const auto schema = requested ? requested : detect_schema(record.value);
    const std::initializer_list<Schema> kConversations = {Schema::kMessages, Schema::kShareGpt,
                                                          Schema::kAlpaca, Schema::kPromptCompletion};
    if (!schema || std::find(kConversations.begin(), kConversations.end(), *schema) == kConversations.end()) {
      reader.bad().add_once(record.place(), unexpected_schema_message(record.value, kConversations));
      continue;
    }
    if (out.schema.empty()) out.schema = name(*schema);
    const auto messages = to_messages(record.value, *schema);
    if (!messages.ok()) {
      reader.bad().add(record.place(), messages.error().message);
      continue;
    }
    auto encoded = encoder.encode(*messages);
    if (!encoded.ok()) {
      reader.bad().add(record.place(), encoded.error().message);
      continue;
    }
    const bool held_out = split.selects(dump(*messages));
    MAKAR_RETURN_IF_ERROR(to.add(*encoded, held_out));
  }
  out.bad = reader.bad();
  return out;
}

Result<ConversationStores> open_conversations(const DatasetOptions& options,
                                              const ConversationEncoder& encoder, int64_t vocab,
                                              Json& identity) {
  const std::string folder = options.folder + "/data/conversations";
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  std::optional<ConversationWriter> writer;
  writer.emplace(folder, vocab);
  std::string first_bad;
  const auto add = [&](const DatasetSpec& spec, ValidationSplit& split) -> Status {
    const uint64_t train = writer->train(), validation = writer->validation();
    MAKAR_TRY(const auto read, read_conversations(spec.data(), spec.type, encoder, split, *writer));
    options.say(fmt::format("{}: {} for training, {} for validation (schema: {})", spec.path,
                            with_plural(writer->train() - train, "conversation"),
                            writer->validation() - validation,
                            read.schema.empty() ? "unknown" : read.schema));
    report_bad_records(options, read.bad);
    if (first_bad.empty() && read.bad.count > 0)
      first_bad = "; the first record that could not be used: " + read.bad.reported.at(0);
    return Done{};
  };
  const auto restart = [&]() -> Status {
    writer.emplace(folder, vocab);
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(read_datasets(options, add, restart));
  if (writer->train() == 0) return error_at("datasets", "there is no conversation to train on{}", first_bad);
  MAKAR_RETURN_IF_ERROR(writer->finish());
  ConversationStores out;
  MAKAR_TRY(out.train, TokenStore::open(folder, "train"));
  MAKAR_TRY(out.validation, TokenStore::open(folder, "validation"));
  identity["data"] = hash_of(out);
  return out;
}

std::string hash_of(const ConversationStores& stores) {
  Sha256 sum;
  for (const TokenStore* store : {&stores.train, &stores.validation})
    for (int64_t d = 0; d < store->documents(); ++d) {
      const auto ids = store->read(store->document(d));
      const auto loss_mask = store->mask(store->document(d));
      sum.add(std::as_bytes(std::span(ids))), sum.add(std::as_bytes(std::span(loss_mask)));
    }
  return sum.hex();
}

Packs pack_documents(const TokenStore& store, int64_t capacity) {
  std::vector<std::pair<int64_t, int64_t>> order;  // (length, document)
  for (int64_t d = 0; d < store.documents(); ++d) {
    const TokenRange range = store.document(d);
    order.emplace_back(range.size(), d);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  Packs packs;
  std::set<std::pair<int64_t, size_t>> open;  // (free tokens, pack)
  for (const auto& [length, document] : order) {
    const auto fits = open.lower_bound({length, 0});
    size_t pack = packs.size();
    int64_t left = capacity;
    if (fits != open.end()) {
      left = fits->first, pack = fits->second;
      open.erase(fits);
    } else {
      packs.emplace_back();
    }
    packs[pack].push_back(document);
    if (left > length) open.emplace(left - length, pack);
  }
  return packs;
}

ConversationTask::ConversationTask(Model& model, TokenStore train, TokenStore validation, int64_t batch,
                                   uint64_t seed, float smoothing, int64_t pack_length)
    : ConversationTask(model, train, std::move(validation), batch, seed, smoothing,
                       pack_length > 0 ? pack_documents(train, pack_length) : Packs()) {}

ConversationTask::ConversationTask(Model& model, TokenStore train, TokenStore validation, int64_t batch,
                                   uint64_t seed, float smoothing, Packs packs)
    : ExampleTask(packs.empty() ? static_cast<size_t>(train.documents()) : packs.size(),
                  static_cast<size_t>(validation.documents()), batch, seed),
      model_(model),
      train_(std::move(train)),
      validation_(std::move(validation)),
      smoothing_(smoothing),
      packs_(std::move(packs)) {}

Result<MicroBatch> ConversationTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  Batch batch;
  std::vector<int64_t> targets;
  const auto add = [&](const TokenStore& store, int64_t document) {
    const TokenRange range = store.document(document);
    const auto ids = store.read(range);
    const auto loss_mask = store.mask(range);
    batch.add(ids);
    for (size_t i = 1; i <= ids.size(); ++i)
      targets.push_back(i < ids.size() && loss_mask[i] ? ids[i] : ops::kIgnore);
  };
  for (const size_t w : which) {
    if (validation || packs_.empty())
      add(validation ? validation_ : train_, static_cast<int64_t>(w));
    else
      for (const int64_t document : packs_[w]) add(train_, document);
  }
  return next_token_batch(model_, std::move(batch), std::move(targets), smoothing_);
}

}  // namespace makar
