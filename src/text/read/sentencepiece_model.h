// A SentencePiece model file as plain data.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace makar {

struct SentencePieceModel {
  enum Type { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  enum Kind { kUnigram = 1, kBpe, kWord, kChar };
  struct Piece {
    std::string text;
    float score = 0;
    int type = kNormal;
  };
  std::vector<Piece> pieces;
  int kind = kUnigram;
  bool byte_fallback = false, whitespace_as_suffix = false;
  int unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  std::string unk_surface = " \u2047 ";
  std::string normalizer_name, character_map;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;

  static Result<SentencePieceModel> parse(std::string_view bytes);
  std::string write() const;
};

}  // namespace makar
