// The numbers contract on whole models, backward: gradients and whole training runs are the same bits at any
// number of threads, with and without activation checkpointing, and when repeated.
#include <cmath>
#include <map>

#include "kernels/cpu_device.h"
#include "models/subjects.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

using Gradients = std::map<std::string, Tensor>;

struct Step {
  bool training = true;  // dropout is on
  bool checkpoint = false;
  float weight = 1.0f;  // loss weight
  uint64_t number = 0;
};

// Inputs and labels of a few sequences; the labels are those of the targets in an encoder-decoder.
struct Example {
  Inputs inputs;
  Labels labels;
};
Example example(const ModelSpec& spec, const std::vector<int64_t>& lengths, uint64_t salt) {
  Example out;
  for (size_t i = 0; i < lengths.size(); ++i) {
    out.inputs.source.add(random_ids(spec, lengths[i], salt + i));
    if (spec.encoder && spec.decoder)
      out.inputs.target.add(random_ids(spec, lengths[lengths.size() - 1 - i], salt + 50 + i));
  }
  out.labels = labels_of(spec.encoder && spec.decoder ? out.inputs.target : out.inputs.source);
  return out;
}

// One forward and backward pass; gradients accumulate in the parameters.
double backward(const Model& model, Device& device, const Example& e, const Step& step = {}) {
  Tape tape(device);
  model.parameters().watch(tape);
  Context ctx{device, &tape, step.training, 11, step.number};
  ForwardContext f{ctx};
  f.checkpoint = step.checkpoint;
  const auto loss = head_loss(f, model, e.inputs, e.labels);
  check(loss.ok(), loss.ok() ? "" : loss.error().text());
  tape.backward(step.weight == 1.0f ? *loss : ops::scale(ctx, *loss, step.weight));
  model.parameters().collect(tape);
  return loss->f32()[0];
}

Gradients gradients(const Model& model, Device& device, const std::vector<Example>& parts,
                    const Step& step = {}) {
  model.parameters().clear_gradients();
  for (const Example& e : parts) backward(model, device, e, step);
  Gradients out;
  for (const auto& p : model.parameters().all())
    if (p->grad.defined()) out[p->name] = p->grad.clone();
  model.parameters().clear_gradients();
  return out;
}

void expect_same(const Gradients& got, const Gradients& expected, const std::string& what) {
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(got.size(), expected.size()) << what;
  double size = 0;
  for (const auto& [name, g] : expected) {
    EXPECT_TRUE(same_bits(got.at(name), g)) << what << ": " << name;
    for (const float x : g.span()) size += std::fabs(x);
  }
  EXPECT_TRUE(std::isfinite(size) && size > 0);
}

std::vector<std::string> training_subjects() {
  auto all = decoders();
  for (const char* more : {"golden/bert-pretraining", "golden/albert-mlm", "small/bert", "small/t5",
                           "small/bart", "small/lstm-general", "small/gru-additive"})
    all.push_back(more);
  return all;
}

class TrainingBits : public testing::TestWithParam<std::string> {
 protected:
  TrainingBits() : loaded_(subject(GetParam())), model_(*loaded_.model) {
    const int64_t max_length = std::min<int64_t>(longest(model_.spec()) - 2, 130);
    example_ = example(model_.spec(), {max_length, 3, 40, max_length - 1, 17, 1 + max_length / 2}, 300);
  }
  CpuDevice device_{2};
  LoadedModel loaded_;
  Model& model_;
  Example example_;
};
INSTANTIATE_TEST_SUITE_P(All, TrainingBits, testing::ValuesIn(training_subjects()), test_name);

TEST_P(TrainingBits, SameGradientsForAnyThreadCount) {
  const Gradients expected = gradients(model_, device_, {example_});
  for (const int threads : {1, 2, 5}) {
    CpuDevice device(threads);
    expect_same(gradients(model_, device, {example_}), expected, fmt::format("{} threads", threads));
  }
}

TEST_P(TrainingBits, SameGradientsWithCheckpointing) {
  expect_same(gradients(model_, device_, {example_}, {.checkpoint = true}),
              gradients(model_, device_, {example_}), "checkpointed");
}

// Five steps of AdamW with clipping; returns all weights and the optimiser state.
std::map<std::string, Tensor> train(const std::string& name, int threads) {
  const LoadedModel loaded = subject(name);
  const Model& model = *loaded.model;
  CpuDevice device(threads);
  OptimizerOptions options;
  options.weight_decay = 0.1;
  auto optimizer = Optimizer::make(model.parameters(), options);
  check(optimizer.ok(), "invalid optimiser options");
  std::map<std::string, Tensor> out;
  for (uint64_t step = 0; step < 5; ++step) {
    model.parameters().clear_gradients();
    const double loss =
        backward(model, device, example(model.spec(), {30, 9, 21, 30}, 1000 * step), {.number = step});
    out[fmt::format("loss {}", step)] = Tensor::full({1}, static_cast<float>(loss));
    const double norm = gradient_norm(device, model.parameters());
    optimizer->step(device, 1e-2, clip_factor(norm, 1.0));
  }
  for (const auto& p : model.parameters().all())
    if (!p->optional) out[p->name] = p->value;
  for (const auto& [key, t] : optimizer->state()) out["state " + key] = t;
  return out;
}

TEST_P(TrainingBits, SameRunTwiceAndAtOtherThreadCounts) {
  const auto expected = train(GetParam(), 2);
  EXPECT_FALSE(same_bits(expected.at("loss 0"), expected.at("loss 4"))) << "nothing was trained";
  for (const int threads : {2, 1, 5}) {
    const auto got = train(GetParam(), threads);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, t] : expected)
      EXPECT_TRUE(same_bits(got.at(name), t)) << threads << " threads: " << name;
  }
}

// Gradients whose sum over tokens is not one chain from the first token to the last: the output matrix adds a
// whole batch to the previous sum; a tied embedding alternates between head and lookup; the T5 bias table,
// attention sinks and weights shared by layers are summed layer by layer; the weights of a recurrent layer's
// state are summed step by step, those of its attention sequence by sequence.
bool regroups(const ModelSpec& spec, const std::string& name) {
  if (spec.main().first().recurrent &&
      (name.find(".hh.") != std::string::npos || name.find(".align.") != std::string::npos ||
       name.find(".context.") != std::string::npos || name.find(".bridge_") != std::string::npos))
    return true;
  return name.starts_with("head.lm") || name.ends_with("relative_bias.weight") ||
         name.ends_with("attn.sinks") || name.find(".mixer.conv.") != std::string::npos ||
         (name.ends_with("embed.tokens.weight") && (spec.head.tied || spec.encoder)) ||
         (spec.main().groups > 0 && name.find(".layers.") != std::string::npos);
}

// Two micro-batches against one batch of both. A sum over tokens continues where the first micro-batch
// stopped, so most gradients are the same bits (norms: when a micro-batch is a multiple of their 64 rows);
// the others agree up to rounding.
TEST_P(TrainingBits, AccumulatedGradientsEqualOneBatch) {
  const ModelSpec& spec = model_.spec();
  if (spec.router_loss > 0) return;  // the router loss is not a mean over tokens
  const Example full_batch = example(spec, std::vector<int64_t>(8, 16), 300);
  const auto half = [&](size_t begin) {
    Example part;
    const auto take = [&](const Batch& from, Batch& to) {
      for (size_t i = begin; i < std::min(begin + 4, from.sequences.size()); ++i) {
        const Sequence& s = from.sequences[i];
        to.add({from.tokens.begin() + s.start, from.tokens.begin() + s.start + s.length});
      }
    };
    take(full_batch.inputs.source, part.inputs.source), take(full_batch.inputs.target, part.inputs.target);
    part.labels = labels_of(spec.encoder && spec.decoder ? part.inputs.target : part.inputs.source);
    return part;
  };
  // Without dropout: its masks depend on the position in the batch.
  const Gradients expected = gradients(model_, device_, {full_batch}, {.training = false});
  const Gradients got = gradients(model_, device_, {half(0), half(4)}, {.training = false, .weight = 0.5f});
  double largest = 0;
  for (const auto& [name, g] : expected)
    for (const float x : g.span()) largest = std::max<double>(largest, std::fabs(x));
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, g] : expected) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < g.count(); ++i)
      difference += std::pow(g.f32()[i] - got.at(name).f32()[i], 2), size += std::pow(g.f32()[i], 2);
    EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(size) + 1e-6 * largest) << name;
    if (!regroups(spec, name)) EXPECT_TRUE(same_bits(got.at(name), g)) << name;
  }
}

}  // namespace
}  // namespace makar
