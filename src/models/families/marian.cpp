// Marian (Junczys-Dowmunt et al., 2018): BART with sinusoidal positions and no norm of the embeddings;
// encoder and decoder may have vocabularies of their own.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_marian(const Config& config) {
  Reader r(config);
  ModelSpec m =
      read_bart_like(r, {"marian", "Marian", false, false, PositionKind::kSinusoidal, true}, -1, 0, 58100);
  m.shared_tokens = r.flag_or("share_encoder_decoder_embeddings", true);
  if (!m.shared_tokens) {
    m.decoder->embedding.vocab = r.integer_or("decoder_vocab_size", m.vocab, 1, int64_t{1} << 23);
    m.vocab = m.decoder->embedding.vocab;
  }
  if (m.decoder_start < 0) m.decoder_start = m.pad;
  return r.finish(m);
}

std::vector<NameRule> marian_names(const ModelSpec& spec) {
  if (spec.shared_tokens) return bart_names(spec);
  return with_names(bart_names(spec), {{"encoder.embed.tokens", "model.encoder.embed_tokens"},
                                       {"decoder.embed.tokens", "model.decoder.embed_tokens"}});
}

Family marian_family() {
  Family family = bart_family("marian", read_marian, marian_names);
  family.ignored.push_back("model.shared.weight");
  return family;
}

}  // namespace

const Family kMarian = marian_family();

}  // namespace makar
