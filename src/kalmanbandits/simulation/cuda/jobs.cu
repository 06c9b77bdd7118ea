// identification/steps.py: over-relaxed steps, and the other jobs that a fit has (policies/learned_kalman_machine.py).

// What steps.stretch changes and takes back: G, Q, c, mu, sigma2. To the spare model, or from it.
template <int D, bool BACK> DEVICE void copy_model(Model<D>& m) {
  constexpr int first = D * D + Sizes<D>::T;
#pragma unroll 4
  for (int i = 0; i < first; i++)
    if (BACK) OF(m.shared, i) = OF(m.spare, i);
    else OF(m.spare, i) = OF(m.shared, i);
#pragma unroll 1
  for (int k = 0; k < m.count; k++)
    for (int i = 0; i < D + 2; i++)
      if (BACK) OF(m.arm(k), i) = OF(m.spare, first + k * (D + 2) + i);
      else OF(m.spare, first + k * (D + 2) + i) = OF(m.arm(k), i);
}

DEVICE void beyond(double* now, double* plain, double e) {
  const double old = *plain;
  *plain = *now;
  *now = old + e * (*now - old);
}

// From the old model in `spare` and the new one: the longer step, and the plain one in `spare`.
template <int D> DEVICE void stretch(Model<D>& m, double e) {
  constexpr int T = Sizes<D>::T, first = D * D + T;
  double longer[T], L[T], r[D];
  EACH(i, 0, D * D) beyond(&OF(m.shared, i), &OF(m.spare, i), e);
  EACH(i, 0, T) {
    const double old = OF(m.spare, D * D + i), now = m.Q(i);
    OF(m.spare, D * D + i) = now;
    L[i] = longer[i] = old + e * (now - old);
  }
  if (cholesky<D>(L, r) > 1e-9)
    EACH(i, 0, T) m.Q(i) = longer[i];
#pragma unroll 1
  for (int k = 0; k < m.count; k++) {
    double *p = m.arm(k), *plain = m.spare + (first + k * (D + 2)) * LANES;
    for (int i = 0; i <= D; i++) beyond(&OF(p, i), &OF(plain, i), e);
    const double now = OF(p, D + 1), ratio = fmin(fmax(now / OF(plain, D + 1), 0.5), 2.0);
    OF(plain, D + 1) = now;
    OF(p, D + 1) = fmax(now * exp((e - 1) * log(ratio)), LEAST_NOISE);
  }
}

// steps.improve, `repeats` times, one after the other: where it stands.
struct Progress {
  double stride, best, first, last;
  int run, steps, repeats, done, idle;  // no repeats are left: nothing to do
  bool unknown;                         // whether there is no likelihood yet to compare with
};

// A step, or where the likelihood fell, back: then the model filters again, while others of the warp smooth.
template <int D> DEVICE void improve(Model<D>& m, Progress& p) {
  using Z = Sizes<D>;
  bool smooths = false;
  if (p.repeats > 0) {
    const double likelihood = run_filter<D>(m, 0, 0);
    smooths = !(p.stride > 1) || p.unknown || likelihood >= p.best;
    if (smooths) {
      if (p.done == 0) p.first = likelihood;
      p.idle = p.done > 0 && fabs(likelihood - p.last) < TOLERANCE ? p.idle + 1 : 0;
      p.best = p.last = likelihood;
      p.unknown = false;
    } else {
      copy_model<D, true>(m);
      p.stride = 1;
    }
  }
  CONVERGE();
  if (smooths) {
    double S00[Z::T], S11[Z::T], cross[D * D];
    copy_model<D, false>(m);
    smooth<D, false>(m, m.n, S00, S11, cross, 0);
    maximise<D>(m, S00, S11, cross);
    if (p.stride > 1) stretch<D>(m, p.stride);
    else copy_model<D, false>(m);
    p.stride = fmin(STRIDE * p.stride, LARGEST_STRIDE);
    if (++p.done == p.steps || p.idle == IDLE) {
      copy_model<D, true>(m);
      p.done = p.idle = 0;
      p.unknown = true;
      p.repeats--;
    }
  }
  CONVERGE();
}

// past.carry_past, after model m has filtered: the current model, of d dimensions, filters the same cells, and the
// states of m are regressed on its states.
template <int D> DEVICE void carry(Model<D>& m) {
  using Z = Sizes<D>;
  const Long* ds = (const Long*)m.row + AT_D;
  const int d = (int)ds[0];
  const double *G = m.row + AT_G, *Q = m.row + AT_Q;
  double z[SIDE], P[SIDE][SIDE], X[SIDE][SIDE], Pc[SIDE], square[SIDE][SIDE], mixed[SIDE][D];
  for (int a = 0; a < d; a++) {
    z[a] = 0;
    for (int b = 0; b < d; b++) P[a][b] = a == b, square[a][b] = a == b ? 1e-6 * m.n : 0;
    for (int b = 0; b < D; b++) mixed[a][b] = 0;
  }
#pragma unroll 1
  for (int t = 0; t < m.n; t++) {
    const int k = m.arms[t];
    const double *c = m.row + AT_C + k * SIDE, *U = m.row + AT_U + k * (SIDE + 1) * (SIDE + 1);
    double v = m.y[t] - m.row[AT_MU + k], S = 0, doubt = U[d * (SIDE + 1) + d];
    for (int a = 0; a < d; a++) {
      Pc[a] = 0;
      for (int b = 0; b < d; b++) {
        Pc[a] += P[a][b] * c[b];
        doubt += U[a * (SIDE + 1) + b] * (z[a] * z[b] + P[a][b]);
      }
      doubt += 2 * U[a * (SIDE + 1) + d] * z[a];
      S += c[a] * Pc[a];
      v -= c[a] * z[a];
    }
    S += m.row[AT_S2 + k] + fmax(doubt, 0.0);
    if (fabs(v) > m.reach) S = fmax(S, v * v / (OUTLIER * OUTLIER));
    for (int a = 0; a < d; a++) {
      z[a] += Pc[a] * v / S;
      for (int b = 0; b < d; b++) P[a][b] -= Pc[a] * Pc[b] / S;
    }
    const double* cell = m.cells + (Long)t * Z::CELL * LANES;
    for (int a = 0; a < d; a++) {
      for (int b = 0; b < d; b++) square[a][b] += z[a] * z[b];
      for (int b = 0; b < D; b++) mixed[a][b] += z[a] * OF(cell, b);
    }
    for (int a = 0; a < d; a++) {
      Pc[a] = 0;
      for (int j = 0; j < d; j++) Pc[a] += G[a * SIDE + j] * z[j];
      for (int b = 0; b < d; b++) {
        X[a][b] = 0;
        for (int j = 0; j < d; j++) X[a][b] += G[a * SIDE + j] * P[j][b];
      }
    }
    for (int a = 0; a < d; a++) {
      z[a] = Pc[a];
      for (int b = 0; b <= a; b++) {
        double total = Q[a * SIDE + b];
        for (int j = 0; j < d; j++) total += X[a][j] * G[b * SIDE + j];
        P[a][b] = P[b][a] = total;
      }
    }
  }
  for (int a = 0; a < d; a++)  // mixed <- square^-1 mixed, by elimination: square is positive definite
    for (int b = 0; b < d; b++)
      if (b != a) {
        const double factor = square[b][a] / square[a][a];
        for (int j = a; j < d; j++) square[b][j] -= factor * square[a][j];
        for (int j = 0; j < D; j++) mixed[b][j] -= factor * mixed[a][j];
      }
  for (int a = 0; a < d; a++)
    for (int j = 0; j < D; j++) mixed[a][j] /= square[a][a];
  for (int k = 0; k < m.count; k++) {
    const int i = m.model * ARMS + k;
    const double* old = m.row + AT_PAST + k * (SIDE + 2) * (SIDE + 2);
    double* past = m.past(k);
    if (old[SIDE * (SIDE + 2) + SIDE] > 0) {
      m.row[AT_MU + i] = m.row[AT_MU + k];
      m.row[AT_S2 + i] = m.row[AT_S2 + k];
      for (int a = 1; a < 3; a++) m.row[AT_PRIOR + 3 * i + a] = m.row[AT_PRIOR + 3 * k + a];
    }
    double half[D][SIDE + 2];  // turn x old, of the states; the others stay as they are
    for (int a = 0; a < D; a++)
      for (int c = 0; c < SIDE + 2; c++) {
        half[a][c] = 0;
        for (int j = 0; j < d; j++) half[a][c] += mixed[j][a] * old[j * (SIDE + 2) + c];
      }
    for (int a = 0; a < SIDE + 2; a++)
      for (int b = 0; b < SIDE + 2; b++) past[a * (SIDE + 2) + b] = 0;
    for (int a = 0; a < D; a++) {
      for (int b = 0; b < D; b++)
        for (int j = 0; j < d; j++) past[a * (SIDE + 2) + b] += half[a][j] * mixed[j][b];
      for (int b = SIDE; b < SIDE + 2; b++) past[a * (SIDE + 2) + b] = past[b * (SIDE + 2) + a] = half[a][b];
    }
    for (int a = SIDE; a < SIDE + 2; a++)
      for (int b = SIDE; b < SIDE + 2; b++) past[a * (SIDE + 2) + b] = old[a * (SIDE + 2) + b];
  }
}

// All other jobs, in code that is called and not inlined. FILTER: the likelihood. FINISH: LearnedKalman._filter and
// _retire, the state after the last cell, what is not known of arms seldom seen, and the sums of the first
// `leaving` cells.
template <int D> CALLED void other_job(Model<D>& m, int kind, int leaving, double* result) {
  using Z = Sizes<D>;
  bool seldom[ARMS], any = false;
  double count[ARMS], S00[Z::T], S11[Z::T], cross[D * D];
  for (int k = 0; k < m.count; k++) count[k] = m.past(k)[SIDE * (SIDE + 2) + SIDE];
  if (kind == FINISH)
    for (int t = 0; t < m.n; t++) count[m.arms[t]] += 1;
  for (int k = 0; k < m.count; k++) any |= seldom[k] = count[k] > 0 && count[k] <= SELDOM;
  const int turns = kind == FINISH && any ? DOUBTS : 0;
  const bool states = kind == FINISH;
  for (int turn = 0; turn <= turns; turn++) {
    result[0] = result[1] = run_filter<D>(m, states ? m.row + AT_STATE_Z : 0, states ? m.row + AT_STATE_P : 0);
    if (turn == turns) break;
    smooth<D, true>(m, m.n, S00, S11, cross, seldom);
#pragma unroll 1
    for (int k = 0; k < m.count; k++)
      if (seldom[k]) {  // doubt._invert
        double A[Z::TE], *p = m.arm(k), *past = m.past(k);
        const double precision = 1 / OF(p, D + 1);
        EACH(a, 0, D + 1)
          EACH(b, 0, a + 1) {
            A[tri(a, b)] = OF(m.sums(k), D + 2 + tri(a, b));
            A[tri(a, b)] += precision * past[(a < D ? a : SIDE) * (SIDE + 2) + (b < D ? b : SIDE)];
            if (a == b) A[tri(a, a)] += 1 / m.prior(k, a < D ? 0 : 2);
          }
        invert<D + 1>(A);
        EACH(i, 0, Z::TE) OF(p, D + 2 + i) = A[i];
        write_arm<D>(m, k);
      }
  }
  if (kind == CARRY) carry<D>(m);
  if (kind != FINISH || leaving <= 0) return;
  smooth<D, false>(m, leaving, S00, S11, cross, 0);
#pragma unroll 1
  for (int k = 0; k < m.count; k++) {  // past.add_to_past
    double *past = m.past(k), *s = m.sums(k);
    for (int a = 0; a <= D; a++) {
      const int line = a < D ? a : SIDE;
      past[line * (SIDE + 2) + SIDE + 1] += OF(s, a);
      past[(SIDE + 1) * (SIDE + 2) + line] += OF(s, a);
      for (int b = 0; b <= D; b++) past[line * (SIDE + 2) + (b < D ? b : SIDE)] += OF(s, D + 2 + tri(a, b));
    }
    past[(SIDE + 2) * (SIDE + 2) - 1] += OF(s, D + 1);
    const double rounds = past[SIDE * (SIDE + 2) + SIDE];
    if (rounds > MOST_PAST)
      for (int i = 0; i < (SIDE + 2) * (SIDE + 2); i++) past[i] *= MOST_PAST / rounds;
  }
}

// A job of a run is a row of integers: kind, model, d, first cell, cells, steps, repeats, leaving, arms. `order`
// names the runs whose models have D dimensions, of which `taken` counts those that some thread has taken. A thread
// that is done takes the next one, some of a warp together: the others wait while models are read and written.
template <int D>
DEVICE void work(double* store, const double* ys, const signed char* arms, const int* jobs, double* results,
                 const int* order, int count, int* taken, double* shared, double* scratch, Long slot, int block,
                 int lane) {
  using Z = Sizes<D>;
  Model<D> m;
  m.shared = shared + lane;
  m.spare = scratch + block * slot + lane;
  m.cells = m.spare + (Z::SPARE + Z::T) * LANES;
  Progress p;
  p.repeats = 0;
  p.run = -1;
  bool more = true;
  for (;;) {
    const int waiting = COUNT(p.repeats == 0 && (more || p.run >= 0)), working = COUNT(p.repeats > 0);
    if (waiting + working == 0) return;
    if ((waiting >= TOGETHER || working == 0) && p.repeats == 0) {
      if (p.run >= 0) {
        double *state = m.row + AT_STATE + 2 * m.model, *result = results + p.run * 4;
        write_model<D>(m);
        state[0] = p.stride;
        state[1] = p.best;
        result[0] = p.first;
        result[1] = p.last;
        p.run = -1;
      }
      const int place = more ? TAKE(taken) : count;
      more = place < count;
      if (more) {
        const int run = order[place], *job = jobs + run * NUMBERS;
        m.row = store + (Long)run * WORDS;
        m.model = job[1];
        m.n = job[4];
        m.count = job[8];
        m.y = ys + (Long)run * CELLS + job[3];
        m.arms = arms + (Long)run * CELLS + job[3];
        m.reach = results[run * 4 + 3];
        read_model<D>(m);
        if (job[0] == IMPROVE) {
          p.run = run;
          p.steps = job[5];
          p.repeats = job[6];
          p.stride = m.row[AT_STATE + 2 * m.model];
          p.done = p.idle = 0;
          p.unknown = true;
        } else {
          Model<D> other = m;  // a copy: what is called may look at it, and `m` stays in registers
          other_job<D>(other, job[0], job[7], results + run * 4);
        }
      }
    }
    CONVERGE();
    improve<D>(m, p);
  }
}

#define ARGUMENTS double *store, const double *ys, const signed char *arms, const int *jobs, double *results, const int *order, int count, int *taken, double *scratch, Long slot
#ifdef __CUDACC__
// What does not fit the shared memory of a block lies behind the rest of its scratch.
#define KERNEL(D, BLOCKS)                                                                               \
  extern "C" __global__ void __launch_bounds__(32, BLOCKS) work_##D(ARGUMENTS) {                        \
    extern __shared__ double shared[];                                                                  \
    constexpr int words = Sizes<D>::SHARED * LANES;                                                     \
    double* place = words * 8 <= MOST_SHARED ? shared : scratch + (blockIdx.x + 1) * slot - words;      \
    work<D>(store, ys, arms, jobs, results, order, count, taken, place, scratch, slot, blockIdx.x, threadIdx.x);     \
  }
#else
#define KERNEL(D, BLOCKS)                                                                               \
  extern "C" void work_##D(ARGUMENTS) {                                                                 \
    double shared[Sizes<D>::SHARED];                                                                    \
    work<D>(store, ys, arms, jobs, results, order, count, taken, shared, scratch, slot, 0, 0);         \
  }
#endif
