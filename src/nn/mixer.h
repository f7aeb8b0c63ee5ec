// A recurrent layer instead of attention: a gated short convolution, or Mamba's selective scan. Its
// state is in the pages of the cache.
#pragma once
#include <string>

#include "nn/attention.h"

namespace makar {

class Mixer {
 public:
  Mixer() = default;
  Mixer(ParameterSet& set, const std::string& name, int64_t width, const MixerSpec& spec);
  Tensor operator()(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;

  // Precomputes values that depend on weights only. Like packed weights, they do not follow later updates.
  void pack(Device& device);

  Linear in, out;
  Linear x, dt;  // kMamba: x projects to the scan's dt (of low rank), b and c; dt projects dt to all channels

 private:
  Tensor conv(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;
  Tensor scan(ForwardContext& f, const Tensor& x, const Tensor& dt, const Tensor& b, const Tensor& c,
              const AttentionInputs& in, int64_t layer) const;
  MixerSpec spec_;
  Parameter *conv_ = nullptr, *conv_bias_ = nullptr;
  Parameter *a_log_ = nullptr, *d_ = nullptr, *dt_bias_ = nullptr;
  Tensor rates_;  // scan_rates(a_log), if packed
  Norm norm_;     // kMamba2: after the gate
};

}  // namespace makar
