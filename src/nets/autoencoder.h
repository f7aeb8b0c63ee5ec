// Autoencoders: undercomplete, sparse (L1 or KL penalty of the code), denoising (Vincent et al., 2008),
// variational (Kingma and Welling, 2014).
#pragma once
#include "nets/batches.h"
#include "nets/mlp.h"
#include "nets/numbers.h"

namespace makar {

enum class CodeKind { kUndercomplete, kSparseL1, kSparseKl, kDenoising, kVariational };
Result<CodeKind> parse_code_kind(const std::string& name, const std::string& place);

struct AutoencoderOptions {
  std::string kind = "undercomplete", hidden = "256", activation = "relu";
  int64_t code = 32;
  double penalty = -1;     // weight of the sparsity penalty or KL divergence; negative: the kind's default
  double activity = 0.05;  // sparse-kl: mean activity of a unit of the code
  double noise = 0.3;      // denoising: share of the inputs set to zero
  NetTraining training;
};

struct CodeEpoch {
  int64_t epoch = 0;
  double loss = 0;            // with the penalty
  double reconstruction = 0;  // binary cross-entropy per example on held-out data, in nats
};

class Autoencoder {
 public:
  Autoencoder() = default;
  // Inputs from 0 to 1; the reconstruction loss is the binary cross-entropy.
  static Result<Autoencoder> train(const Numbers& data, const Numbers& held_out,
                                   const AutoencoderOptions& options, Device& device,
                                   const std::function<void(const CodeEpoch&)>& each);
  // Codes [rows, code]; the means for a variational autoencoder.
  Tensor encode(Context& ctx, const Tensor& x);
  Tensor decode(Context& ctx, const Tensor& code);  // from 0 to 1
  int64_t code_width() const { return code_; }
  CodeKind kind() const { return kind_; }
  const std::vector<CodeEpoch>& epochs() const { return epochs_; }
  // Share of code values above 0.1 in absolute value (sparsity), over the first 1000 examples.
  double activity(const Numbers& data, Device& device);

  // The size of the images, or 0 for other inputs; the words of a bag of words, or an empty list.
  int64_t height() const { return height_; }
  int64_t columns() const { return columns_; }
  const std::vector<std::string>& words() const { return words_; }
  int64_t inputs() const { return encoder_.spec().widths.front(); }
  Status save(const std::string& folder) const;
  static Result<Autoencoder> load(const std::string& folder);

 private:
  struct Code {
    Tensor mean, log_variance;  // log_variance only for a variational autoencoder
  };
  Code code_of(Context& ctx, const Tensor& x);
  Tensor loss(Context& ctx, const Tensor& x, const AutoencoderOptions& o);
  Tensor penalty(Context& ctx, const Code& code, const AutoencoderOptions& o) const;

  CodeKind kind_ = CodeKind::kUndercomplete;
  int64_t code_ = 0, height_ = 0, columns_ = 0;
  std::vector<std::string> words_;
  ParameterSet set_;
  Mlp encoder_, decoder_;
  std::vector<CodeEpoch> epochs_;
};

}  // namespace makar
