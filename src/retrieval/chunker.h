// Splits a document into chunks, which are indexed and retrieved.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace makar {

enum class ChunkKind { kWhole, kCharacters, kTokens, kSentences, kHeadings };
const char* name(ChunkKind kind);  // "whole", "characters", ...
Result<ChunkKind> parse_chunk_kind(const std::string& name, const std::string& place);

struct ChunkOptions {
  ChunkKind kind = ChunkKind::kSentences;
  int64_t size = 1000;  // characters (code points), or tokens
  int64_t overlap = 0;  // in the same unit; less than the size
  bool operator==(const ChunkOptions&) const = default;
};
Status check_chunk_options(const ChunkOptions& options);

struct TextChunk {
  size_t begin = 0, end = 0;  // bytes in the document's text, without blanks at either end
  std::string heading;        // "Chapter 1 > Section 2" for kHeadings
};

// - whole: one chunk.
// - characters: at most `size` characters; ends after a blank in the second half of the window if there is
//   one. Consecutive chunks share at most `overlap` characters, from the start of a word.
// - sentences: whole sentences, at most `size` characters; a longer sentence is split like `characters`.
// - headings: the sections of Markdown, split into sentences where they are longer.
// - tokens: windows of `size` tokens of the tokenizer.
// Every non-blank character is in a chunk. The same text and options give the same chunks.
Result<std::vector<TextChunk>> split_chunks(std::string_view text, const ChunkOptions& options,
                                            const Tokenizer* tokenizer = nullptr);

// Sentences as byte ranges, with the blanks that follow them; together they are the text. A sentence ends at
// . ! ? or their East Asian forms before a blank (not after a title such as "Mr." or an initial), and at an
// empty line.
std::vector<Span> sentences_of(std::string_view text);

}  // namespace makar
