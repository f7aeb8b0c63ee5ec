#include "text/read/sentencepiece_model.h"

#include "text/read/wire.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

// Field numbers are those of sentencepiece_model.proto.
namespace makar {
namespace {

Result<SentencePieceModel::Piece> parse_piece(std::string_view bytes) {
  SentencePieceModel::Piece piece;
  for (WireReader reader(bytes); !reader.done();) {
    MAKAR_TRY(const auto field, reader.next());
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = field.as_float();
    if (field.number == 3) piece.type = static_cast<int>(field.value);
  }
  return piece;
}

Status parse_trainer(std::string_view bytes, SentencePieceModel& model) {
  for (WireReader reader(bytes); !reader.done();) {
    MAKAR_TRY(const auto field, reader.next());
    switch (field.number) {
      case 3:
        model.kind = static_cast<int>(field.value);
        break;
      case 24:
        model.whitespace_as_suffix = field.value != 0;
        break;
      case 35:
        model.byte_fallback = field.value != 0;
        break;
      case 40:
        model.unk_id = static_cast<int>(field.value);
        break;
      case 41:
        model.bos_id = static_cast<int>(field.value);
        break;
      case 42:
        model.eos_id = static_cast<int>(field.value);
        break;
      case 43:
        model.pad_id = static_cast<int>(field.value);
        break;
      case 44:
        model.unk_surface = field.bytes;
        break;
      default:
        break;
    }
  }
  return Done{};
}

Status parse_normalizer(std::string_view bytes, SentencePieceModel& model) {
  for (WireReader reader(bytes); !reader.done();) {
    MAKAR_TRY(const auto field, reader.next());
    switch (field.number) {
      case 1:
        model.normalizer_name = field.bytes;
        break;
      case 2:
        model.character_map = field.bytes;
        break;
      case 3:
        model.add_dummy_prefix = field.value != 0;
        break;
      case 4:
        model.remove_extra_whitespaces = field.value != 0;
        break;
      case 5:
        model.escape_whitespaces = field.value != 0;
        break;
      default:
        break;
    }
  }
  return Done{};
}

}  // namespace

Result<SentencePieceModel> SentencePieceModel::parse(std::string_view bytes) {
  SentencePieceModel model;
  for (WireReader reader(bytes); !reader.done();) {
    MAKAR_TRY(const auto field, reader.next());
    if (field.number == 1) {
      if (model.pieces.size() > Vocabulary::kMaxId)
        return error_of(Error::Kind::kLimit, "pieces", "more than {} pieces", Vocabulary::kMaxId);
      auto piece = parse_piece(field.bytes);
      if (!piece.ok()) return piece.error().in(fmt::format("piece {}", model.pieces.size()));
      if (!is_valid_utf8(piece->text))
        return error_at(fmt::format("piece {}", model.pieces.size()), "is not UTF-8");
      model.pieces.push_back(std::move(*piece));
    } else if (field.number == 2) {
      MAKAR_RETURN_IF_ERROR(parse_trainer(field.bytes, model));
    } else if (field.number == 3) {
      MAKAR_RETURN_IF_ERROR(parse_normalizer(field.bytes, model));
    }
  }
  if (model.pieces.empty()) return error_at("pieces", "has no pieces: this is not a SentencePiece model");
  return model;
}

std::string SentencePieceModel::write() const {
  WireWriter out;
  for (const Piece& piece : pieces) {
    WireWriter message;
    message.bytes(1, piece.text);
    message.real(2, piece.score);
    if (piece.type != kNormal) message.number(3, static_cast<uint64_t>(piece.type));
    out.bytes(1, message.out());
  }
  WireWriter trainer;
  trainer.number(3, static_cast<uint64_t>(kind));
  trainer.number(4, pieces.size());
  if (whitespace_as_suffix) trainer.number(24, 1);
  if (byte_fallback) trainer.number(35, 1);
  const auto put_id = [&](uint32_t field, int value) {
    trainer.number(field, static_cast<uint64_t>(static_cast<int64_t>(value)));
  };
  put_id(40, unk_id), put_id(41, bos_id), put_id(42, eos_id), put_id(43, pad_id);
  trainer.bytes(44, unk_surface);
  out.bytes(2, trainer.out());
  WireWriter normalizer;
  normalizer.bytes(1, normalizer_name);
  normalizer.bytes(2, character_map);
  normalizer.number(3, add_dummy_prefix);
  normalizer.number(4, remove_extra_whitespaces);
  normalizer.number(5, escape_whitespaces);
  out.bytes(3, normalizer.out());
  return out.out();
}

}  // namespace makar
