#include "models/forward.h"

#include <cmath>
#include <cstring>

#include "ops/shape.h"

namespace makar {
namespace {

using Tensors = std::map<std::string, Tensor>;
constexpr int64_t kMaxSegments = 65536;  // XLNet only compares segment ids; it has no table of them

const Tensor* find(const Tensors& in, const std::string& name) {
  const auto it = in.find(name);
  return it == in.end() ? nullptr : &it->second;
}

Error input_error(const std::string& place, const std::string& name, const std::string& what) {
  return error_at(place, "tensor 'in.{}' {}", name, what);
}

Status check_matrix(const Tensor& t, const std::string& name, const std::string& place,
                    const Shape* ids_shape = nullptr) {
  if (t.dtype() != DType::kI64) return input_error(place, name, "must be i64, got " + makar::name(t.dtype()));
  if (t.rank() != 2 || t.dim(0) < 1 || t.dim(1) < 1)
    return input_error(place, name, "must be [batch, time], got " + t.shape().text());
  if (ids_shape && !(t.shape() == *ids_shape))
    return input_error(place, name,
                       "has shape " + t.shape().text() + ", but the ids have shape " + ids_shape->text());
  return Done{};
}

// Turns rows of ids and mask into sequences; the ones of a mask must be contiguous (padding left or right).
Result<Batch> ragged_batch(const StackSpec& stack, const ModelSpec& spec, const Tensor& ids,
                           const Tensor* mask, const Tensor* types, const std::string& id_name,
                           const std::string& place) {
  Batch batch;
  const int64_t rows = ids.dim(0), time = ids.dim(1);
  const auto& relative = stack.first().attention.relative;
  const bool segments = relative && relative->kind == RelativeSpec::Kind::kXl;
  const int64_t type_count = segments ? kMaxSegments : stack.embedding.types;
  for (int64_t r = 0; r < rows; ++r) {
    const auto is_token = [&](int64_t t) { return !mask || mask->i64()[r * time + t] != 0; };
    int64_t begin = 0;
    while (begin < time && !is_token(begin)) ++begin;
    int64_t end = begin;
    while (end < time && is_token(end)) ++end;
    for (int64_t t = end; t < time; ++t)
      if (is_token(t))
        return input_error(place, "attention_mask",
                           fmt::format("has a gap in row {}; padding must be at one end", r));
    if (begin == end) return input_error(place, "attention_mask", fmt::format("masks all of row {}", r));
    // transformers also uses rows of padding: all of them for question answering, the last one for XLNet's
    // sequence classification.
    const bool keeps_padding =
        spec.head.kind == HeadKind::kQuestion || (segments && spec.head.kind == HeadKind::kSequenceClass);
    const int64_t last = keeps_padding ? time : end;
    batch.sequences.push_back({batch.rows(), last - begin, 0, static_cast<size_t>(r), last - end});
    for (int64_t t = begin; t < last; ++t) {
      const int64_t id = ids.i64()[r * time + t];
      if (id < 0 || id >= stack.embedding.vocab)
        return input_error(place, id_name,
                           fmt::format("has id {} at [{}, {}]; the vocabulary has {} entries", id, r, t,
                                       stack.embedding.vocab));
      batch.tokens.push_back(id);
      const int64_t position = stack.embedding.count_positions ? t - begin : t;
      const bool has_table = stack.embedding.positions != PositionKind::kNone;
      if ((has_table && position + stack.embedding.position_offset >= stack.embedding.max_positions) ||
          (stack.rotary_rows > 0 && position >= stack.rotary_rows))
        return input_error(place, id_name,
                           fmt::format("is longer than the model's {} positions", spec.max_positions));
      batch.positions.push_back(position);
      if (types && type_count > 0) {
        const int64_t type = types->i64()[r * time + t];
        if (type < 0 || type >= type_count)
          return input_error(place, "token_type_ids",
                             fmt::format("has type {}; the model has {} types", type, type_count));
        batch.types.push_back(type);
      }
    }
  }
  return batch;
}

Result<Batch> read_batch(const StackSpec& stack, const ModelSpec& spec, const Tensors& in,
                         const std::string& ids_name, const std::string& mask_name,
                         const std::string& place) {
  const Tensor* ids = find(in, ids_name);
  if (!ids)
    return error_of(Error::Kind::kNotFound, place, "tensor 'in.{}' is missing; {} requires it", ids_name,
                    spec.architecture);
  MAKAR_RETURN_IF_ERROR(check_matrix(*ids, ids_name, place));
  const Tensor *mask = find(in, mask_name), *types = find(in, "token_type_ids");
  if (mask) MAKAR_RETURN_IF_ERROR(check_matrix(*mask, mask_name, place, &ids->shape()));
  if (types) MAKAR_RETURN_IF_ERROR(check_matrix(*types, "token_type_ids", place, &ids->shape()));
  return ragged_batch(stack, spec, *ids, mask, types, ids_name, place);
}

Result<Batch> read_pixels(const ModelSpec& spec, const Tensors& in, const std::string& place) {
  const Tensor* pixels = find(in, "pixel_values");
  const PatchSpec& p = *spec.encoder->embedding.patches;
  if (!pixels) return error_of(Error::Kind::kNotFound, place, "tensor 'in.pixel_values' is missing");
  const Shape& s = pixels->shape();
  if (pixels->dtype() != DType::kF32 || s.rank() != 4 || s[0] < 1 || s[1] != p.channels ||
      s[2] != p.image_height || s[3] != p.image_width)
    return input_error(place, "pixel_values",
                       fmt::format("must be f32 [batch, {}, {}, {}], got {} {}", p.channels, p.image_height,
                                   p.image_width, makar::name(pixels->dtype()), s.text()));
  return pixel_batch(spec, *pixels);
}

int64_t padded_time(const Batch& batch, const Tensors& in, const std::string& ids_name) {
  const Tensor* ids = find(in, ids_name);
  return ids ? ids->dim(1) : batch.sequences[0].length;
}

// Finds the decoder rows of the image tokens, which the encoder's rows replace.
Status find_image_rows(const ImageInputSpec& p, Inputs& inputs, const std::string& place) {
  Batch& target = inputs.target;
  for (size_t i = 0; i < target.tokens.size(); ++i)
    if (target.tokens[i] == p.token) target.feature_rows.push_back(static_cast<int64_t>(i));
  const auto images = static_cast<int64_t>(inputs.source.sequences.size());
  const int64_t rows = inputs.source.rows() - (p.skip_class ? images : 0);
  if (static_cast<int64_t>(target.feature_rows.size()) != rows)
    return input_error(place, "input_ids",
                       fmt::format("has {} image tokens (id {}); {} images need {}",
                                   target.feature_rows.size(), p.token, images, rows));
  return Done{};
}

}  // namespace

Result<Inputs> make_inputs(const ModelSpec& spec, const Tensors& in, const std::string& place) {
  Inputs inputs;
  if (spec.encoder && spec.encoder->embedding.patches) {
    MAKAR_TRY(inputs.source, read_pixels(spec, in, place));
    if (!spec.decoder) return inputs;
    const bool captions = spec.decoder->first().cross.has_value();
    MAKAR_TRY(inputs.target, read_batch(*spec.decoder, spec, in, captions ? "decoder_input_ids" : "input_ids",
                                        captions ? "decoder_attention_mask" : "attention_mask", place));
    if (captions && inputs.target.sequences.size() != inputs.source.sequences.size())
      return input_error(place, "decoder_input_ids", "must have as many rows as there are images");
    if (spec.image_input) MAKAR_RETURN_IF_ERROR(find_image_rows(*spec.image_input, inputs, place));
    return inputs;
  }
  const StackSpec& source_stack = spec.encoder ? *spec.encoder : *spec.decoder;
  MAKAR_TRY(inputs.source, read_batch(source_stack, spec, in, "input_ids", "attention_mask", place));
  if (spec.encoder && spec.decoder) {
    MAKAR_TRY(inputs.target,
              read_batch(*spec.decoder, spec, in, "decoder_input_ids", "decoder_attention_mask", place));
    if (inputs.target.sequences.size() != inputs.source.sequences.size())
      return input_error(place, "decoder_input_ids", "must have as many rows as in.input_ids");
  }
  return inputs;
}

Tensor pad_rows(const Tensor& on_device, const Batch& batch, int64_t time) {
  const Tensor rows = on_device.host();
  const int64_t n = static_cast<int64_t>(batch.sequences.size()), width = rows.count() / rows.dim(0);
  Tensor out = width == 1 && rows.rank() == 2 ? Tensor::zeros({n, time}) : Tensor::zeros({n, time, width});
  for (int64_t i = 0; i < n; ++i) {
    const Sequence& s = batch.sequences[static_cast<size_t>(i)];
    // Where positions are column numbers, a left-padded sequence starts at the column of its first token.
    const int64_t at =
        s.length < time ? std::min(batch.positions[static_cast<size_t>(s.start)], time - s.length) : 0;
    std::memcpy(out.f32() + (i * time + at) * width, rows.f32() + s.start * width,
                sizeof(float) * static_cast<size_t>(s.length * width));
  }
  return out;
}

// Mean pooling: one row with norm 1 per sequence, a sentence embedding.
static Tensor mean_pooled(const Tensor& on_device, const Batch& batch) {
  const Tensor hidden = on_device.host();
  const int64_t width = hidden.dim(1);
  Tensor out = Tensor::zeros({static_cast<int64_t>(batch.sequences.size()), width});
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    float* row = out.f32() + static_cast<int64_t>(s) * width;
    const Sequence& q = batch.sequences[s];
    double squares = 0;
    for (int64_t j = 0; j < width; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < q.length; ++i) sum += hidden.f32()[(q.start + i) * width + j];
      row[j] = static_cast<float>(sum / static_cast<double>(q.length));
      squares += static_cast<double>(row[j]) * row[j];
    }
    const float inverse_norm = static_cast<float>(1.0 / std::max(std::sqrt(squares), 1e-12));
    for (int64_t j = 0; j < width; ++j) row[j] *= inverse_norm;
  }
  return out;
}

Result<Tensors> forward_tensors(const Model& model, const Tensors& in, const ForwardOptions& options,
                                const std::string& place) {
  const ModelSpec& spec = model.spec();
  MAKAR_TRY(const Inputs inputs, make_inputs(spec, in, place));
  Context ctx{options.device};
  Record record, encoder_record;
  record.hidden = encoder_record.hidden = true;
  record.attention = encoder_record.attention = options.attentions;
  ForwardContext f{ctx, nullptr, &record};
  const bool two_stacks = spec.encoder && spec.decoder;
  const bool encoder_decoder = two_stacks && spec.decoder->first().cross;
  const Batch& batch = two_stacks ? inputs.target : inputs.source;
  const int64_t time = padded_time(batch, in, encoder_decoder ? "decoder_input_ids" : "input_ids");
  const int64_t source_time = padded_time(inputs.source, in, "input_ids");
  const Tensor hidden = model.hidden(f, inputs, &encoder_record);
  Tensors out;
  if (spec.head.kind == HeadKind::kContrastive) {
    ForwardContext unrecorded{ctx};
    const Tensor texts = model.text_vectors(ctx, hidden, batch),
                 images = model.image_vectors(unrecorded, inputs.source);
    out["text_embeds"] = texts.host();
    out["image_embeds"] = images.host();
    out["logits_per_image"] = model.contrast(ctx, images, texts).host();
    return out;
  }
  for (auto& [name, value] : model.outputs(ctx, hidden, batch)) {
    const bool one_row_per_token = value.dim(0) == hidden.dim(0) &&
                                   spec.head.kind != HeadKind::kSequenceClass &&
                                   spec.head.kind != HeadKind::kImageClass &&
                                   name != "seq_relationship_logits" && name != "pooler_output";
    out[name] = one_row_per_token ? pad_rows(value, batch, time) : value.host();
  }
  if (spec.head.kind == HeadKind::kNone && !spec.decoder && !batch.tokens.empty())
    out["mean_pooled_normalized"] = mean_pooled(hidden, batch);
  const auto add_states = [&](const std::string& name, const Record& r, const Batch& b, int64_t t) {
    for (size_t i = 0; i < r.hidden_states.size(); ++i)
      out[fmt::format("{}.{}", name, i)] = pad_rows(r.hidden_states[i], b, t);
  };
  const auto add_maps = [&](const std::string& name, const std::vector<std::vector<Tensor>>& layers) {
    for (size_t i = 0; i < layers.size(); ++i)
      for (size_t s = 0; s < layers[i].size(); ++s)
        out[fmt::format("{}.{}.{}", name, i, s)] = layers[i][s].host();
  };
  add_states(encoder_decoder ? "decoder_hidden_states" : "hidden_states", record, batch, time);
  add_maps(encoder_decoder ? "decoder_attentions" : "attentions", record.attentions);
  if (encoder_decoder) {
    add_states("encoder_hidden_states", encoder_record, inputs.source, source_time);
    add_maps("encoder_attentions", encoder_record.attentions);
    add_maps("cross_attentions", record.cross_attentions);
  }
  return out;
}

}  // namespace makar
