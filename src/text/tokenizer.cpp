#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/pipeline.h"
#include "text/truncate.h"

namespace makar {
namespace {

Encoding with_masks(Encoding encoding, uint8_t sequence) {
  encoding.type_ids.assign(encoding.ids.size(), sequence);
  encoding.sequence_ids.assign(encoding.ids.size(), sequence);
  encoding.special_mask.assign(encoding.ids.size(), 0);
  encoding.attention_mask.assign(encoding.ids.size(), 1);
  return encoding;
}

Encoding join(std::vector<Encoding> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Encoding out;
  for (const Encoding& part : parts) append(out, part);
  return out;
}

// One encoding of the parts, with special tokens.
Encoding add_special_tokens(std::vector<Encoding> parts, const PostProcessor::Texts& texts,
                            const PostProcessor* processor, bool add_special) {
  if (processor) processor->apply(parts, texts, add_special);
  return join(std::move(parts));
}

// The truncation of `count` sequences, minus the special tokens that are added after it.
std::optional<Truncation> truncation_of(size_t count, const PostProcessor* processor,
                                        const EncodeOptions& options) {
  std::optional<Truncation> t = options.truncation;
  const size_t added = processor && options.add_special ? processor->added_count(count == 2) : 0;
  if (t) t->max_length = t->max_length > added ? t->max_length - added : 0;
  return t;
}

Result<Encoding> assemble(std::vector<Encoding> parts, const PostProcessor::Texts& texts,
                          const PostProcessor* processor, const EncodeOptions& options) {
  if (const auto t = truncation_of(parts.size(), processor, options))
    MAKAR_RETURN_IF_ERROR(truncate(parts, *t, options.overflow));
  // Move the overflow out first, so that the copy of `parts` for each window does not include it.
  std::vector<std::vector<Encoding>> part_overflow;
  for (Encoding& part : parts) part_overflow.push_back(std::exchange(part.overflow, {}));
  std::vector<Encoding> overflow;
  for (size_t i = 0; i < parts.size(); ++i)
    for (Encoding& piece : part_overflow[i]) {
      std::vector<Encoding> window = parts;
      window[i] = std::move(piece);
      overflow.push_back(add_special_tokens(std::move(window), texts, processor, options.add_special));
    }
  Encoding encoding = add_special_tokens(std::move(parts), texts, processor, options.add_special);
  encoding.overflow = std::move(overflow);
  if (options.padding && options.padding->length > 0)
    pad(encoding, *options.padding, options.padding->length);
  return encoding;
}

}  // namespace

Result<Encoding> Tokenizer::encode_part(std::string_view text, const EncodeOptions& options,
                                        uint8_t sequence) const {
  Encoding encoding;
  MAKAR_RETURN_IF_ERROR(
      impl_->run(text, options, {encoding.ids, options.offsets ? &encoding.offsets : nullptr}));
  return with_masks(std::move(encoding), sequence);
}

Result<Encoding> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<Encoding> parts(1);
  MAKAR_TRY(parts[0], encode_part(text, options, 0));
  return assemble(std::move(parts), {text, {}}, impl_->post_processor.get(), options);
}

Result<Encoding> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                        const EncodeOptions& options) const {
  MAKAR_TRY(const Encoding first_encoding, encode_part(first, options, 0));
  return encode_pair(first, first_encoding, second, options);
}

Result<Encoding> Tokenizer::encode_pair(std::string_view first, const Encoding& first_encoding,
                                        std::string_view second, const EncodeOptions& options) const {
  std::vector<Encoding> parts(2);
  MAKAR_TRY(parts[1], encode_part(second, options, 1));
  const PostProcessor* processor = impl_->post_processor.get();
  const auto t = truncation_of(2, processor, options);
  if (t && !options.overflow) {
    MAKAR_TRY(const auto lengths, truncated_lengths({first_encoding.size(), parts[1].size()}, *t));
    parts[0] = truncated(first_encoding, lengths[0], *t);
    parts[1] = truncated(parts[1], lengths[1], *t);
  } else {
    parts[0] = first_encoding;
  }
  return assemble(std::move(parts), {first, second}, processor, options);
}

std::vector<Result<Encoding>> Tokenizer::encode_batch(std::span<const std::string_view> texts,
                                                      const EncodeOptions& options, ThreadPool& pool) const {
  std::vector<Result<Encoding>> out(texts.size(), Encoding{});
  pool.for_ranges(static_cast<int64_t>(texts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = encode(texts[i], options);
  });
  if (options.padding && options.padding->length == 0) {
    size_t longest = 0;
    for (const auto& encoding : out)
      if (encoding.ok()) longest = std::max(longest, encoding->size());
    for (auto& encoding : out)
      if (encoding.ok()) pad(*encoding, *options.padding, longest);
  }
  return out;
}

Status Tokenizer::append_ids(std::string_view text, const EncodeOptions& options,
                             std::vector<uint32_t>& ids) const {
  if (options.add_special || options.truncation || options.padding) {
    EncodeOptions ids_only = options;
    ids_only.offsets = false;
    MAKAR_TRY(const Encoding encoding, encode(text, ids_only));
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    return Done{};
  }
  return impl_->run(text, options, {ids, nullptr});
}

std::string Tokenizer::decode_bytes(std::span<const uint32_t> ids, bool skip_special) const {
  const Impl& impl = *impl_;
  if (impl.decoder && impl.decoder->is_byte_level()) {
    std::string bytes;
    for (const uint32_t id : ids) {
      if (const AddedToken* token = impl.added.by_id(id)) {
        if (!(skip_special && token->special))
          bytes += letters_to_bytes(token->matched_text).value_or(token->matched_text);
      } else if (impl.raw_bpe && impl.raw_bpe->bytes(id)) {
        bytes += *impl.raw_bpe->bytes(id);
      } else if (const auto text = impl.model->vocabulary().token(id)) {
        bytes += letters_to_bytes(*text).value_or(std::string(*text));
      }
    }
    return bytes;
  }
  return decode(ids, skip_special);
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special) const {
  const Impl& impl = *impl_;
  if (impl.decoder && impl.decoder->is_byte_level()) return to_valid_utf8(decode_bytes(ids, skip_special));
  std::vector<std::string> tokens;
  for (const uint32_t id : ids) {
    if (skip_special && impl.added.is_special(id)) continue;
    if (const AddedToken* added = impl.added.by_id(id))
      tokens.push_back(added->matched_text);
    else if (const auto text = impl.model->vocabulary().token(id))
      tokens.emplace_back(*text);
  }
  if (impl.decoder && !tokens.empty()) impl.decoder->apply(tokens, false);
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !impl.decoder) out += ' ';
    out += tokens[i];
  }
  return to_valid_utf8(out);
}

size_t Tokenizer::vocab_size() const {
  size_t size = impl_->model->vocabulary().size();
  for (const AddedToken& token : impl_->added.tokens()) size = std::max<size_t>(size, token.id + 1);
  return size;
}

std::optional<uint32_t> Tokenizer::id(std::string_view token) const {
  if (const AddedToken* added = impl_->added.by_content(token)) return added->id;
  const uint32_t id = impl_->model->vocabulary().find(token);
  return id == kNoId ? std::nullopt : std::optional<uint32_t>(id);
}

std::optional<std::string> Tokenizer::token(uint32_t id) const {
  if (const AddedToken* added = impl_->added.by_id(id)) return added->content;
  if (const auto text = impl_->model->vocabulary().token(id)) return std::string(*text);
  return std::nullopt;
}

bool Tokenizer::is_special(uint32_t id) const { return impl_->added.is_special(id); }
const std::vector<AddedToken>& Tokenizer::added_tokens() const { return impl_->added.tokens(); }
bool Tokenizer::byte_level() const { return impl_->byte_level; }
const std::optional<Truncation>& Tokenizer::truncation() const { return impl_->truncation; }
const std::optional<Padding>& Tokenizer::padding() const { return impl_->padding; }

std::vector<Span> code_point_offsets(std::string_view text, const std::vector<Span>& offsets) {
  // The number of code points that start before each byte; an invalid sequence counts as one, like its
  // replacement.
  std::vector<uint32_t> before(text.size() + 1);
  uint32_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    const uint32_t size = decode_utf8(text, at).size;
    for (uint32_t i = 0; i < size; ++i) before[at + i] = count;
    at += size;
  }
  before[text.size()] = count;
  std::vector<Span> out;
  out.reserve(offsets.size());
  for (const Span span : offsets)
    out.push_back(
        {before[std::min<size_t>(span.begin, text.size())], before[std::min<size_t>(span.end, text.size())]});
  return out;
}

}  // namespace makar
