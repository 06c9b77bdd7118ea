// policies/learned_kalman_rehearsal.py: episodes of the current model, whose parameters are taken as known. Then
// learned_kalman_index.prepare is the prediction, the bonus for the state, and the knowledge gradient.

#define ENDLESS 1e308

// kalman_lookahead.expected_envelope: E max_b (level_b + slope_b e) for e ~ N(0, 1). The arrays are used up.
DEVICE double expected_envelope(double* level, double* slope) {
  double corner[ARMS], total = level[0];
  for (int b = 1; b < ARMS; b++) total = fmax(total, level[b]);
  for (int b = 1; b < ARMS; b++) {  // by slope, then by level
    const double l = level[b], s = slope[b];
    int i = b - 1;
    for (; i >= 0 && (slope[i] > s || (slope[i] == s && level[i] > l)); i--) {
      level[i + 1] = level[i];
      slope[i + 1] = slope[i];
    }
    level[i + 1] = l;
    slope[i + 1] = s;
  }
  int last = 0;  // lines 0 to last are the envelope; line i rises above the one before at corner[i]
  corner[0] = -ENDLESS;
  for (int b = 1; b < ARMS; b++) {
    const double l = level[b], s = slope[b];
    double meet = -ENDLESS;
    for (; last >= 0; last--)
      if (s > slope[last]) {
        meet = (level[last] - l) / (s - slope[last]);
        if (meet > corner[last]) break;
      }
    last++;
    level[last] = l;
    slope[last] = s;
    corner[last] = last > 0 ? meet : -ENDLESS;
  }
  for (int i = 1; i <= last; i++) {
    const double x = -fabs(corner[i]);
    if (x > -38) {
      const double density = 0.3989422804014327 * exp(-0.5 * x * x);
      total += (slope[i] - slope[i - 1]) * (density + x * 0.5 * erfc(x * -0.7071067811865476));
    }
  }
  return total;
}

// The regret of an episode with these normal deviates, D + 1 for each round.
template <int D> DEVICE double play_episode(const double* row, double curiosity, const double* numbers) {
  using Z = Sizes<D>;
  double G[D * D], Q[Z::T], L[Z::T], r[D], P[Z::T], z[D], x[D], c[ARMS][D], w[ARMS][D], mu[ARMS], s2[ARMS];
  EACH(a, 0, D) {
    z[a] = 0;
    x[a] = numbers[a];
    EACH(b, 0, D) G[a * D + b] = row[AT_G + a * SIDE + b];
    EACH(b, 0, a + 1) {
      L[tri(a, b)] = Q[tri(a, b)] = row[AT_Q + a * SIDE + b];
      P[tri(a, b)] = a == b;
    }
  }
  cholesky<D>(L, r);
  for (int k = 0; k < ARMS; k++) {
    mu[k] = row[AT_MU + k];
    s2[k] = row[AT_S2 + k];
    EACH(a, 0, D) c[k][a] = row[AT_C + k * SIDE + a];
    EACH(a, 0, D) {  // what the state a round on is to the arm
      w[k][a] = 0;
      EACH(b, 0, D) w[k][a] += c[k][b] * G[b * D + a];
    }
  }
  const double reach = row[AT_REACH];
  double loss = 0;
#pragma unroll 1
  for (int t = 1; t <= LENGTH; t++) {
    numbers += D + 1;
    double next[ARMS], value[ARMS], top = -ENDLESS, best = -ENDLESS, index = -ENDLESS, K[D], S = 1, expected = 0, paid = 0, deviation = 0;
    for (int k = 0; k < ARMS; k++) {
      next[k] = value[k] = mu[k];
      EACH(a, 0, D) {
        next[k] += w[k][a] * z[a];
        value[k] += c[k][a] * z[a];
      }
      top = fmax(top, next[k]);
    }
    for (int k = 0; k < ARMS; k++) {
      double Pc[D], mean = mu[k], variance = s2[k], lasting = 0, level[ARMS], slope[ARMS];
      EACH(a, 0, D) {
        double Pw = 0;
        Pc[a] = 0;
        EACH(b, 0, D) {
          Pc[a] += P[tri(a, b)] * c[k][b];
          Pw += P[tri(a, b)] * w[k][b];
        }
        mean += c[k][a] * x[a];
        variance += c[k][a] * Pc[a];
        lasting += w[k][a] * Pw;
      }
      const double scale = INVERSE_ROOT(variance);
      for (int b = 0; b < ARMS; b++) {
        level[b] = next[b];
        slope[b] = 0;
        EACH(a, 0, D) slope[b] += w[b][a] * Pc[a];
        slope[b] *= scale;
      }
      const double its = value[k] + sqrt(curiosity * lasting) + (expected_envelope(level, slope) - top);
      best = fmax(best, mean);
      if (k == 0 || its > index) {
        index = its;
        expected = value[k];
        paid = mean;
        S = fmax(variance, s2[k]);
        deviation = sqrt(s2[k]);
        EACH(a, 0, D) K[a] = Pc[a];
      }
    }
    loss += best - paid;
    const double v = paid + deviation * numbers[D] - expected;
    if (fabs(v) > reach) S = fmax(S, v * v / (OUTLIER * OUTLIER));
    const double inverse = 1 / S;
    double ahead[D], state[D], moved[Z::T];
    EACH(a, 0, D) {
      z[a] += K[a] * v * inverse;
      EACH(b, 0, a + 1) P[tri(a, b)] -= K[a] * K[b] * inverse;
    }
    EACH(a, 0, D) {
      double GP[D];
      ahead[a] = state[a] = 0;
      EACH(b, 0, D) {
        GP[b] = 0;
        EACH(j, 0, D) GP[b] += G[a * D + j] * P[tri(j, b)];
        ahead[a] += G[a * D + b] * z[b];
        state[a] += G[a * D + b] * x[b];
      }
      EACH(b, 0, a + 1) {
        double total = Q[tri(a, b)];
        EACH(j, 0, D) total += GP[j] * G[b * D + j];
        moved[tri(a, b)] = total;
        state[a] += L[tri(a, b)] * numbers[b];
      }
    }
    EACH(a, 0, D) {
      z[a] = ahead[a];
      x[a] = state[a];
    }
    EACH(i, 0, Z::T) P[i] = moved[i];
  }
  return loss;
}

// Of all episodes, without a bonus and with one, of the runs in `order`: those of a warp are of different runs.
// `tables` says which table of deviates a run has; it is negative if that is not there.
template <int D>
DEVICE void rehearse(const double* store, double* fits, const int* order, const int* tables, const double* numbers,
                     int count, int i) {
  const int place = i % count, episode = i / count % EPISODES_PLAYED, curious = i / count / EPISODES_PLAYED;
  if (curious > 1 || tables[place] < 0) return;
  const double* own = numbers + ((Long)tables[place] * EPISODES_PLAYED + episode) * (LENGTH + 1) * (D + 1);
  fits[order[place] * (Long)FIT_WORDS + AT_LOSSES + curious * EPISODES + episode] =
      play_episode<D>(store + order[place] * (Long)WORDS, curious ? CURIOUS : 0.0, own);
}

#define EPISODE_ARGUMENTS const double *store, double *fits, const int *order, const int *tables, const double *numbers, int count
#ifdef __CUDACC__
#define REHEARSAL_KERNEL(D)                                                                             \
  extern "C" __global__ void __launch_bounds__(32) rehearse_##D(EPISODE_ARGUMENTS) {                    \
    rehearse<D>(store, fits, order, tables, numbers, count, blockIdx.x * 32 + threadIdx.x);             \
  }
#else
#define REHEARSAL_KERNEL(D)                                                                             \
  extern "C" void rehearse_##D(EPISODE_ARGUMENTS) {                                                     \
    for (int i = 0; i < 2 * EPISODES_PLAYED * count; i++) rehearse<D>(store, fits, order, tables, numbers, count, i); \
  }
#endif
