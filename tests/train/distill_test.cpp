// Distillation: every loss against its formula in double precision, gradients by differences, the task on
// two small models.
#include "train/distill.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "ops/softmax.h"
#include "scratch_folder.h"
#include "train/causal.h"
#include "train/denoise.h"
#include "train/loop.h"
#include "train/sampled_answers.h"

namespace makar {
namespace {

const std::string kGolden = MAKAR_TEST_GOLDEN;

Tensor random_tensor(const Shape& shape, uint64_t seed, float scale = 1) {
  Tensor out = Tensor::empty(shape);
  const Rng rng(seed, Purpose::kInit);
  for (int64_t i = 0; i < out.count(); ++i) out.f32()[i] = scale * rng.normal(static_cast<uint64_t>(i));
  return out;
}

std::vector<double> log_softmax_of(const float* x, int64_t n) {
  double max = x[0], sum = 0;
  for (int64_t i = 0; i < n; ++i) max = std::max<double>(max, x[i]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(x[i] - max - std::log(sum));
  return out;
}

// The divergences by their definitions.
double divergence_of(const Tensor& student, const Tensor& teacher, TeacherLoss loss, double beta) {
  double total = 0;
  const int64_t n = student.dim(1);
  for (int64_t r = 0; r < student.dim(0); ++r) {
    const auto q = log_softmax_of(student.f32() + r * n, n), p = log_softmax_of(teacher.f32() + r * n, n);
    for (size_t i = 0; i < p.size(); ++i) {
      const double a = std::exp(p[i]), b = std::exp(q[i]), m = std::log(beta * a + (1 - beta) * b);
      total += loss == TeacherLoss::kForward   ? a * (p[i] - q[i])
               : loss == TeacherLoss::kReverse ? b * (q[i] - p[i])
                                               : beta * a * (p[i] - m) + (1 - beta) * b * (q[i] - m);
    }
  }
  return total / static_cast<double>(student.dim(0));
}

// Compares the gradient of `loss` with central differences of `reference` in double precision.
void check_gradient(const Tensor& x, const std::function<Tensor(Context&, const Tensor&)>& loss,
                    const std::function<double(const Tensor&)>& reference) {
  CpuDevice device(1);
  Tape tape(device);
  Context ctx{device, &tape};
  tape.watch(x);
  const Tensor value = loss(ctx, x);
  EXPECT_NEAR(value.f32()[0], reference(x), 1e-5 * std::max(1.0, std::fabs(reference(x))));
  tape.backward(value);
  const Tensor gradient = tape.gradient(x);
  for (int64_t i = 0; i < x.count(); ++i) {
    const float at = x.f32()[i], step = 1e-2f;
    x.f32()[i] = at + step;
    const double above = reference(x);
    x.f32()[i] = at - step;
    const double below = reference(x);
    x.f32()[i] = at;
    EXPECT_NEAR(gradient.f32()[i], (above - below) / (2.0 * step), 2e-4) << i;
  }
}

TEST(DistillLoss, DivergencesFollowTheirDefinitions) {
  const Tensor teacher = random_tensor({3, 5}, 1, 2);
  for (const TeacherLoss loss : {TeacherLoss::kForward, TeacherLoss::kReverse, TeacherLoss::kJensenShannon})
    for (const float beta : {0.5f, 0.2f}) {
      const Tensor student = random_tensor({3, 5}, 2, 2);
      check_gradient(
          student,
          [&](Context& ctx, const Tensor& x) {
            Context plain{ctx.device};
            return teacher_divergence(ctx, ops::log_softmax(ctx, x), ops::log_softmax(plain, teacher), loss,
                                      beta);
          },
          [&](const Tensor& x) { return divergence_of(x, teacher, loss, beta); });
    }
}

TEST(DistillLoss, AnEqualTeacherGivesZeroLoss) {
  CpuDevice device(1);
  Context ctx{device};
  const Tensor same = ops::log_softmax(ctx, random_tensor({4, 7}, 3));
  for (const TeacherLoss loss : {TeacherLoss::kForward, TeacherLoss::kReverse, TeacherLoss::kJensenShannon})
    EXPECT_NEAR(teacher_divergence(ctx, same, same, loss, 0.5f).f32()[0], 0, 1e-6);
}

// The Jensen-Shannon divergence of disjoint distributions is log 2.
TEST(DistillLoss, JensenShannonIsBounded) {
  CpuDevice device(1);
  Context ctx{device};
  const std::vector<float> a = {40, 0}, b = {0, 40};
  const Tensor p = ops::log_softmax(ctx, Tensor::from({1, 2}, std::span<const float>(a)));
  const Tensor q = ops::log_softmax(ctx, Tensor::from({1, 2}, std::span<const float>(b)));
  EXPECT_NEAR(teacher_divergence(ctx, q, p, TeacherLoss::kJensenShannon, 0.5f).f32()[0], std::log(2.0), 1e-5);
}

TEST(DistillLoss, HiddenStateLossesFollowTheirDefinitions) {
  const Tensor teacher = random_tensor({3, 4}, 4);
  check_gradient(
      random_tensor({3, 4}, 5),
      [&](Context& ctx, const Tensor& x) { return hidden_distance(ctx, x, teacher); },
      [&](const Tensor& x) {
        double sum = 0;
        for (int64_t i = 0; i < 12; ++i) sum += std::pow(x.f32()[i] - teacher.f32()[i], 2.0);
        return sum / 12;
      });
  check_gradient(
      random_tensor({3, 4}, 6), [&](Context& ctx, const Tensor& x) { return hidden_angle(ctx, x, teacher); },
      [&](const Tensor& x) {
        double sum = 0;
        for (int64_t r = 0; r < 3; ++r) {
          double ab = 0, aa = 0, bb = 0;
          for (int64_t i = r * 4; i < r * 4 + 4; ++i) {
            const double a = x.f32()[i], b = teacher.f32()[i];
            ab += a * b, aa += a * a, bb += b * b;
          }
          sum += 1 - ab / std::sqrt(aa * bb);
        }
        return sum / 3;
      });
}

// Two sequences of 3 and 2 rows, two heads that share one key head.
TEST(DistillLoss, AttentionLossesFollowTheirDefinitions) {
  AttentionSpec spec;
  spec.heads = 2, spec.kv_heads = 1, spec.head_dim = 2, spec.scale = 0.7f;
  const std::vector<Sequence> sequences = {{0, 3}, {3, 2}};
  const Tensor keys = random_tensor({5, 2}, 7), teacher_q = random_tensor({5, 4}, 8),
               teacher_k = random_tensor({5, 2}, 9);
  for (const bool causal : {true, false})
    for (const bool divergence : {false, true}) {
      spec.causal = causal;
      const auto scores = [&](const Tensor& q, const Tensor& k, int64_t head, int64_t i, int64_t j) {
        double sum = 0;
        for (int64_t d = 0; d < 2; ++d)
          sum += static_cast<double>(q.f32()[i * 4 + head * 2 + d]) * static_cast<double>(k.f32()[j * 2 + d]);
        return 0.7 * sum;
      };
      const auto reference = [&](const Tensor& x) {
        double total = 0, counted = 0;
        for (const Sequence& s : sequences)
          for (int64_t h = 0; h < 2; ++h)
            for (int64_t i = s.start; i < s.start + s.length; ++i) {
              std::vector<float> a, b;
              for (int64_t j = s.start; j < s.start + s.length; ++j)
                if (!causal || j <= i) {
                  a.push_back(static_cast<float>(scores(x, keys, h, i, j)));
                  b.push_back(static_cast<float>(scores(teacher_q, teacher_k, h, i, j)));
                }
              const auto n = static_cast<int64_t>(a.size());
              const auto q = log_softmax_of(a.data(), n), p = log_softmax_of(b.data(), n);
              for (size_t j = 0; j < a.size(); ++j) {
                const double gap = static_cast<double>(a[j]) - static_cast<double>(b[j]);
                total += divergence ? std::exp(p[j]) * (p[j] - q[j]) : gap * gap;
              }
              counted += divergence ? 1 : static_cast<double>(n);
            }
        return total / counted;
      };
      check_gradient(
          random_tensor({5, 4}, 10),
          [&](Context& ctx, const Tensor& x) {
            return attention_distance(ctx, {x, keys, spec}, {teacher_q, teacher_k, spec}, sequences,
                                      divergence);
          },
          reference);
    }
}

TEST(Distill, LayerMapsAreParsed) {
  EXPECT_EQ(even_layers(2, 6), (LayerMap{{0, 0}, {1, 3}, {2, 6}}));
  EXPECT_EQ(*parse_layer_map("1:2,2:6", 2, 6, "layer_map"), (LayerMap{{1, 2}, {2, 6}}));
  for (const char* bad :
       {"", "1", "1:", ":1", "1:2,", "3:1", "1:7", "-1:2", "1:2:3", "a:b", "1:99999999999999999999"})
    EXPECT_FALSE(parse_layer_map(bad, 2, 6, "layer_map").ok()) << bad;
  EXPECT_EQ(*parse_layers("1,4,6", 6, "student_layers"), (std::vector<int64_t>{1, 4, 6}));
  EXPECT_EQ(*parse_layers("3", 6, "student_layers"), (std::vector<int64_t>{3}));
  for (const char* bad : {"", "0", "7", "2,1", "2,2", "1,", ",1", "1;2", "a"})
    EXPECT_FALSE(parse_layers(bad, 6, "student_layers").ok()) << bad;
}

// Two golden Llamas with the same vocabulary.
struct Pair {
  CpuDevice device{2};
  LoadedModel student = *load_model(kGolden + "/models/dpo-policy", {true});
  LoadedModel teacher = *load_model(kGolden + "/models/dpo-reference");

  std::unique_ptr<Task> text() {
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < 300; ++i) ids.push_back((i * 37 + i * i) % 100 + 3);
    TokenSource source{"text", TokenStore::from_memory({ids})};
    return std::make_unique<CausalTask>(*student.model, std::vector<TokenSource>{source},
                                        std::vector<TokenStore>{source.store}, CausalOptions{16, 4, 1});
  }
  double loss(const DistillOptions& options) {
    DistillTask task(*student.model, *teacher.model, text(), options);
    LoopSettings settings;
    const Loop loop{*student.model, task, settings, device, {}, nullptr, {}};
    return step_gradients(loop, 0)->loss;
  }
};

// alpha mixes the teacher's loss and the targets' loss; alpha 0 is the loss without a teacher.
TEST(Distill, TheLossIsTheMixture) {
  Pair p;
  DistillOptions o;
  o.temperature = 2;
  o.alpha = 0;
  const double hard = p.loss(o);
  {
    auto plain = p.text();
    LoopSettings settings;
    const Loop loop{*p.student.model, *plain, settings, p.device, {}, nullptr, {}};
    EXPECT_NEAR(step_gradients(loop, 0)->loss, hard, 1e-6);
  }
  o.alpha = 1;
  const double soft = p.loss(o);
  o.alpha = 0.25f;
  EXPECT_NEAR(p.loss(o), 0.25 * soft + 0.75 * hard, 1e-5);
  EXPECT_GT(soft, 1e-3);
}

// Logits computed for a few rows at a time give the same loss and gradients.
TEST(Distill, LogitsInBlocksGiveTheSameLossAndGradients) {
  Pair p;
  const auto gradients = [&](int64_t block_logits) {
    auto task = p.text();
    const auto batch = task->train_batch(0)->language;
    Tape tape(p.device);
    p.student.model->parameters().clear_gradients();
    p.student.model->parameters().watch(tape);
    Context ctx{p.device, &tape};
    ForwardContext f{ctx};
    Context plain{p.device};
    ForwardContext frozen{plain};
    PredictionLoss loss{*p.student.model, *p.teacher.model, TeacherLoss::kReverse, 2.0f};
    loss.max_logits = block_logits;
    const Tensor value =
        loss(ctx, p.student.model->hidden(f, batch->inputs), p.teacher.model->hidden(frozen, batch->inputs));
    tape.backward(value);
    p.student.model->parameters().collect(tape);
    return std::pair(static_cast<double>(value.f32()[0]),
                     TrainedModels(*p.student.model).gradient_norm(p.device));
  };
  const auto at_once = gradients(int64_t{1} << 30), in_blocks = gradients(1);
  EXPECT_NEAR(at_once.first, in_blocks.first, 1e-5);
  EXPECT_NEAR(at_once.second, in_blocks.second, 1e-5 * at_once.second);
}

// The student as its own teacher.
TEST(Distill, AnEqualTeacherGivesZeroLossAndFullAgreement) {
  Pair p;
  DistillOptions o;
  o.alpha = 1, o.hidden_weight = 1, o.attention_weight = 1;
  o.layers = even_layers(p.student.model->spec().main().layers(), p.student.model->spec().main().layers());
  for (const bool other : {false, true}) {
    o.hidden = other ? HiddenLoss::kCosine : HiddenLoss::kSquare;
    o.attention = other ? AttentionLoss::kDivergence : AttentionLoss::kSquare;
    ASSERT_TRUE(DistillTask::check(*p.student.model, *p.student.model, o).ok());
    DistillTask task(*p.student.model, *p.student.model, p.text(), o);
    LoopSettings settings;
    const Loop loop{*p.student.model, task, settings, p.device, {}, nullptr, {}};
    EXPECT_NEAR(step_gradients(loop, 0)->loss, 0, 2e-5);
    const Metrics held_out = *task.metrics(p.device);
    EXPECT_EQ(held_out.at("teacher_agreement"), 1);
    EXPECT_NEAR(held_out.at("teacher_kl"), 0, 1e-6);
  }
}

// A narrower student: projections are trained, and neither counted nor saved.
TEST(Distill, ProjectionsAreTrainedButNeitherCountedNorSaved) {
  Pair p;
  Json config = p.student.model->spec().config;
  config["hidden_size"] = 32, config["head_dim"] = 8;
  LoadedModel small = *make_model(Config(config, "config.json"));
  initialize(*small.model, 1);
  const int64_t count = small.model->parameters().count();
  std::vector<uint32_t> ids(200, 5);
  for (uint32_t i = 0; i < 200; ++i) ids[i] = i % 50 + 3;
  TokenSource source{"text", TokenStore::from_memory({ids})};
  DistillOptions o;
  o.hidden_weight = 1,
  o.layers = even_layers(small.model->spec().main().layers(), p.teacher.model->spec().main().layers());
  DistillTask task(*small.model, *p.teacher.model,
                   std::make_unique<CausalTask>(*small.model, std::vector<TokenSource>{source},
                                                std::vector<TokenStore>{}, CausalOptions{16, 4, 1}),
                   o);
  EXPECT_EQ(small.model->parameters().count(), count);
  LoopSettings settings;
  const Loop loop{*small.model, task, settings, p.device, {}, nullptr, {}};
  ASSERT_TRUE(step_gradients(loop, 0).ok());
  const Parameter* projection = small.model->parameters().find("distill.projection.0.weight");
  ASSERT_TRUE(projection && projection->grad.defined());
  for (const NamedTensor& t :
       named_tensors(*small.model, *small.family, false, [](const Parameter& q) { return q.value; }))
    EXPECT_EQ(t.name.find("distill"), std::string::npos);
}

TEST(Distill, IncompatibleTeachersAreRejected) {
  Pair p;
  const LoadedModel bert = *load_model(kGolden + "/models/roberta-mlm"),
                    bloom = *load_model(kGolden + "/models/bloom-alibi");
  DistillOptions o;
  EXPECT_FALSE(DistillTask::check(*p.student.model, *bert.model, o).ok());
  o.attention_weight = 1, o.layers = {{1, 1}};
  EXPECT_FALSE(DistillTask::check(*bloom.model, *bloom.model, o).ok());
}

// LFM2 has attention in its second layer only, Mamba none: queries and keys are those of the layers that have
// attention, and a map without such layers is refused.
TEST(Distill, OnlyLayersWithAttentionAreCompared) {
  CpuDevice device(2);
  const LoadedModel lfm2 = *load_model(kGolden + "/models/lfm2", {true}),
                    mamba = *load_model(kGolden + "/models/mamba", {true});
  LoadedModel other = *make_model(Config(lfm2.model->spec().config, "lfm2"));
  initialize(*other.model, 9);
  DistillOptions o;
  o.alpha = 1, o.attention_weight = 1, o.layers = even_layers(3, 3);
  const auto loss = [&](const Model& teacher) {
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < 100; ++i) ids.push_back(i % 50 + 3);
    DistillTask task(*lfm2.model, teacher,
                     std::make_unique<CausalTask>(
                         *lfm2.model, std::vector<TokenSource>{{"text", TokenStore::from_memory({ids})}},
                         std::vector<TokenStore>{}, CausalOptions{16, 2, 1}),
                     o);
    LoopSettings settings;
    const Loop loop{*lfm2.model, task, settings, device, {}, nullptr, {}};
    return step_gradients(loop, 0)->metrics.at("attention");
  };
  ASSERT_TRUE(DistillTask::check(*lfm2.model, *other.model, o).ok());
  EXPECT_NEAR(loss(*lfm2.model), 0, 1e-6);
  EXPECT_GT(loss(*other.model), 1e-3);
  o.layers = {{1, 1}, {3, 2}};  // convolutions of the student
  EXPECT_FALSE(DistillTask::check(*lfm2.model, *other.model, o).ok());
  o.layers = {{0, 0}};
  EXPECT_FALSE(DistillTask::check(*lfm2.model, *other.model, o).ok());
  o.layers = even_layers(2, 2);
  const Status refused = DistillTask::check(*mamba.model, *mamba.model, o);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("no two of the compared layers have attention"), std::string::npos);
}

// Mamba's records start with the output of the first layer; the embedding cannot be compared.
TEST(Distill, HiddenStatesOfMambaAreThoseOfTheSameLayers) {
  CpuDevice device(2);
  const LoadedModel student = *load_model(kGolden + "/models/mamba", {true});
  const LoadedModel teacher = *load_model(kGolden + "/models/mamba", {true});
  // The second layer of the teacher adds nothing: its output is that of the first layer.
  const Tensor w = teacher.model->parameters().find("decoder.layers.1.mixer.out.weight")->value;
  std::fill_n(w.f32(), w.count(), 0.0f);
  DistillOptions o;
  o.hidden_weight = 1;
  const auto hidden = [&](const LayerMap& layers) {
    o.layers = layers;
    std::vector<uint32_t> ids(100, 7);
    DistillTask task(*student.model, *teacher.model,
                     std::make_unique<CausalTask>(
                         *student.model, std::vector<TokenSource>{{"text", TokenStore::from_memory({ids})}},
                         std::vector<TokenStore>{}, CausalOptions{16, 2, 1}),
                     o);
    LoopSettings settings;
    const Loop loop{*student.model, task, settings, device, {}, nullptr, {}};
    return step_gradients(loop, 0)->metrics.at("hidden");
  };
  EXPECT_EQ(hidden({{1, 1}}), 0);
  EXPECT_EQ(hidden({{0, 0}, {1, 1}}), 0);
  EXPECT_GT(hidden({{2, 2}}), 1e-6);
  o.layers = {{0, 0}};
  EXPECT_FALSE(DistillTask::check(*student.model, *teacher.model, o).ok());
}

// TinyBERT (Jiao et al., 2019): masked tokens, hidden states through projections, and attention scores, of an
// encoder with half the width and half the layers.
TEST(Distill, AnEncoderLearnsHiddenStatesAndAttention) {
  CpuDevice device(2);
  ScratchFolder folder;
  const LoadedModel teacher = *load_model(kGolden + "/models/roberta-mlm");
  Json config = teacher.model->spec().config;
  config["hidden_size"] = config["hidden_size"].get<int64_t>() / 2, config["num_hidden_layers"] = 1;
  SpecialIds special;
  special.cls = special.bos = 0, special.sep = special.eos = 2;
  special.vocab = teacher.model->spec().vocab, special.mask = special.vocab - 1;
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 600; ++i) ids.push_back((i * 37 + i * i) % 100 + 5);
  const TokenSource source{"text", TokenStore::from_memory({ids})};
  DistillOptions o;
  o.alpha = 1, o.hidden_weight = 1, o.attention_weight = 1;
  o.layers = even_layers(1, teacher.model->spec().main().layers());
  for (const AttentionLoss attention : {AttentionLoss::kSquare, AttentionLoss::kDivergence}) {
    LoadedModel student = *make_model(Config(config, "student"));
    initialize(*student.model, 4);
    o.attention = attention;
    ASSERT_TRUE(DistillTask::check(*student.model, *teacher.model, o).ok());
    DistillTask task(*student.model, *teacher.model,
                     std::make_unique<DenoiseTask>(*student.model, std::vector<TokenSource>{source},
                                                   std::vector<TokenStore>{source.store},
                                                   CausalOptions{24, 4, 1}, special, NoiseKind::kMasked),
                     o);
    LoopSettings settings;
    settings.output_dir = folder / (attention == AttentionLoss::kSquare ? "square" : "divergence");
    settings.learning_rate = 5e-3, settings.lr_scheduler = "constant", settings.max_steps = 60;
    const Metrics before = *task.metrics(device);
    std::vector<Metrics> steps;
    LoopEvents events;
    events.step = [&](const StepInfo& step) { steps.push_back(step.metrics); };
    const auto done = run_loop({*student.model, task, settings, device, events, nullptr, Json::object()});
    ASSERT_TRUE(done.ok()) << done.error().text();
    for (const char* part : {"teacher", "hidden", "attention"})
      EXPECT_LT(steps.back().at(part), 0.7 * steps.front().at(part)) << part;
    EXPECT_LT(done->validation.at("teacher_kl"), before.at("teacher_kl"));
  }
}

}  // namespace
}  // namespace makar
