// A few training steps of an adapter, for the tests of adapters on quantized bases.
#pragma once
#include <gtest/gtest.h>

#include "models/adapter.h"
#include "models/subjects.h"
#include "optim/optimizer.h"
#include "scratch_folder.h"

namespace makar {

// The loss on a sequence of `length` tokens and one of 9; also computes the gradients of the trainable
// parameters.
inline float loss_and_gradients(const LoadedModel& loaded, Device& device, int64_t length) {
  Inputs in;
  in.source.add(random_ids(loaded.model->spec(), length, 5));
  in.source.add(random_ids(loaded.model->spec(), 9, 6));
  Tape tape(device);
  loaded.model->parameters().clear_gradients();
  loaded.model->parameters().watch(tape);
  Context ctx{device, &tape};
  ForwardContext f{ctx};
  const Tensor loss = *head_loss(f, *loaded.model, in, labels_of(in.source));
  tape.backward(loss);
  loaded.model->parameters().collect(tape);
  return loss.f32()[0];
}

// Trains the adapter of `loaded` and expects the loss to fall below `max_ratio` times the first loss. Then
// saves the adapter, loads it onto `reloaded`, the same base, and expects the same loss.
inline void expect_training_and_loading(const LoadedModel& loaded, const AdapterConfig& config,
                                        const LoadedModel& reloaded, Device& device, int64_t length,
                                        int steps, float max_ratio) {
  auto optimizer = Optimizer::make(loaded.model->parameters(), {});
  ASSERT_TRUE(optimizer.ok());
  const float first_loss = loss_and_gradients(loaded, device, length);
  for (int i = 0; i < steps; ++i) {
    optimizer->step(device, 1e-2);
    loss_and_gradients(loaded, device, length);
  }
  const float last_loss = loss_and_gradients(loaded, device, length);
  EXPECT_LT(last_loss, max_ratio * first_loss);
  ScratchFolder folder;
  ASSERT_TRUE(save_adapter(loaded, config, folder.path()).ok());
  ASSERT_TRUE(load_adapter(reloaded, folder.path(), device).ok());
  EXPECT_EQ(loss_and_gradients(reloaded, device, length), last_loss);
}

}  // namespace makar
