// identification/maximisation.py: the M-step, after `smooth`. States are turned as soon as Gamma and Q are known:
// the factor of the sums that they are regressed on is that of the mean square, but for a number.

// past.turn_past: for states z = Lx, the past with x in place of z.
template <int D> DEVICE void turn_past(double* past, const double* L, const double* r) {
  for (int side = 0; side < 2; side++) {
    const int along = side ? SIDE + 2 : 1, across = side ? 1 : SIDE + 2;
    for (int c = 0; c < SIDE + 2; c++)
      EACH(a, 0, D) {
        double total = past[a * across + c * along];
        EACH(b, 0, a) total -= L[tri(a, b)] * past[b * across + c * along];
        past[a * across + c * along] = total * r[a];
      }
  }
}

// past.add_past, for one arm.
template <int D> DEVICE void add_past(const double* past, double* s) {
  if (past[SIDE * (SIDE + 2) + SIDE] == 0) return;
  for (int a = 0; a <= D; a++) {
    const double* line = past + (a < D ? a : SIDE) * (SIDE + 2);
    OF(s, a) += line[SIDE + 1];
    for (int b = 0; b <= a; b++) OF(s, D + 2 + tri(a, b)) += line[b < D ? b : SIDE];
  }
  OF(s, D + 1) += past[(SIDE + 1) * (SIDE + 2) + SIDE + 1];
}

// regress_states and the first part of normalise; L (packed) turns the arms, r is 1 / its diagonal.
template <int D> DEVICE void regress_states(Model<D>& m, double* L, double* r, double* S11, const double* cross) {
  constexpr int T = Sizes<D>::T;
  const int moved = m.n - 1;
  double S10[D * D], G[D * D], Q[T];
  EACH(a, 0, D)
    EACH(b, 0, D) {
      double total = 0;
      EACH(j, 0, D) total += m.G(a, j) * L[tri(j, b)] + m.Q(tri(a, j)) * cross[j * D + b];
      S10[a * D + b] = total;
    }
  EACH(a, 0, D) L[tri(a, a)] += SHRINK_GAMMA;
  cholesky<D>(L, r);
  EACH(c, 0, D) {
    double* x = G + c * D;
    EACH(a, 0, D) {
      x[a] = S10[c * D + a];
      EACH(b, 0, a) x[a] -= L[tri(a, b)] * x[b];
      x[a] *= r[a];
    }
#pragma unroll
    for (int a = D - 1; a >= 0; a--) {
      EACH(b, a + 1, D) x[a] -= L[tri(b, a)] * x[b];
      x[a] *= r[a];
    }
  }
  const double share = 1 / (moved + MOVES_Q);
  EACH(a, 0, D)
    EACH(b, 0, a + 1) {
      double total = S11[tri(a, b)];
      EACH(j, 0, D) total -= 0.5 * (G[a * D + j] * S10[b * D + j] + G[b * D + j] * S10[a * D + j]);
      Q[tri(a, b)] = (total + (a == b ? SQUARES_Q : 0.0)) * share;
    }
  // L <- L / sqrt(moved):  G <- L^-1 G L (in S10),  Q <- L^-1 Q L'^-1
  const double larger = sqrt(fmax((double)moved, 1.0)), smaller = 1 / larger;
  EACH(i, 0, T) L[i] *= smaller;
  EACH(a, 0, D) r[a] *= larger;
  EACH(a, 0, D)
    EACH(b, 0, D) {
      double total = 0;
      EACH(j, b, D) total += G[a * D + j] * L[tri(j, b)];
      EACH(j, 0, a) total -= L[tri(a, j)] * S10[j * D + b];
      S10[a * D + b] = total * r[a];
      m.G(a, b) = S10[a * D + b];
    }
  EACH(b, 0, D)
    EACH(a, 0, D) {
      double total = Q[tri(a, b)];
      EACH(j, 0, a) total -= L[tri(a, j)] * G[j * D + b];
      G[a * D + b] = total * r[a];
    }
  EACH(b, 0, D)
    EACH(a, 0, b + 1) {
      double total = G[b * D + a];
      EACH(j, 0, a) total -= L[tri(a, j)] * S10[b * D + j];
      S10[b * D + a] = total * r[a];
      m.Q(tri(b, a)) = S10[b * D + a];
    }
}

// regress_arm, what share_noise asks of it (returned: its weight; `log_noise`), and turn_arm.
template <int D> DEVICE double regress_arm(Model<D>& m, int k, const double* L, const double* r, double* log_noise) {
  using Z = Sizes<D>;
  double *p = m.arm(k), *s = m.sums(k), U[Z::TE], theta[D + 1];
  double* past = m.past(k);
  add_past<D>(past, s);
  const double precision = 1 / OF(p, D + 1), own = 1 / m.prior(k, 0), level = 1 / m.prior(k, 2);
  EACH(a, 0, D + 1)
    EACH(b, 0, a + 1)
      U[tri(a, b)] = precision * OF(s, D + 2 + tri(a, b)) + (a == b ? (a < D ? own : level) : 0.0);
  invert<D + 1>(U);
  EACH(a, 0, D + 1) {
    theta[a] = U[tri(D, a)] * m.prior(k, 1) * level;
    EACH(b, 0, D + 1) theta[a] += U[tri(a, b)] * OF(s, b) * precision;
  }
  // The sums b are c, then mu, at places 0 ... D; yy comes after.
  const double count = OF(s, D + 2 + tri(D, D));
  double residual = OF(s, D + 1), fitted = 0, weight = 0;
  EACH(a, 0, D + 1) {
    residual -= 2 * theta[a] * OF(s, a);
    EACH(b, 0, a + 1) {
      const double sum = (a == b ? 1 : 2) * OF(s, D + 2 + tri(a, b));
      residual += sum * theta[a] * theta[b];
      fitted += sum * U[tri(a, b)];
    }
  }
  if (count > 1) residual = fmin(residual, (OF(s, D + 1) - OF(s, D) * OF(s, D) / count) * count / (count - 1));
  if (count > 0) {
    residual = fmax(residual, 0.0);
    OF(s, D + 1) = residual;
    const double free = fmax(count - fitted * precision, 0.0);
    weight = free / (free + LIKE_OTHERS);
    *log_noise = weight * log(fmax(residual / count, LEAST_NOISE));
  } else {
    OF(s, D + 1) = 0;
    *log_noise = 0;
  }
  OF(p, D) = theta[D];
  OF(p, D + 2 + tri(D, D)) = U[tri(D, D)];
  EACH(a, 0, D) {  // c <- L'c, and its covariance with it
    double total = 0, with_level = 0, turned[D];
    EACH(b, 0, a + 1) turned[b] = 0;
    EACH(j, a, D) {
      total += theta[j] * L[tri(j, a)];
      with_level += U[tri(D, j)] * L[tri(j, a)];
    }
    OF(p, a) = total;
    OF(p, D + 2 + tri(D, a)) = with_level;
    double line[D];  // row a of L'U
    EACH(b, 0, D) {
      line[b] = 0;
      EACH(j, a, D) line[b] += L[tri(j, a)] * U[tri(j, b)];
    }
    EACH(b, 0, a + 1) {
      EACH(j, b, D) turned[b] += line[j] * L[tri(j, b)];
      OF(p, D + 2 + tri(a, b)) = turned[b];
    }
  }
  if (past[SIDE * (SIDE + 2) + SIDE] > 0) turn_past<D>(past, L, r);
  return weight;
}

// _loading_size and _level_share of an arm.
template <int D> DEVICE void known_of(Model<D>& m, int k, double* size, double* gamma, double* share) {
  const double* p = m.arm(k);
  *size = 0;
  *gamma = 0;
  const double own = 1 / m.prior(k, 0);
  EACH(a, 0, D) {
    *size += OF(p, a) * OF(p, a);
    *gamma += 1 - fmin(OF(p, D + 2 + tri(a, a)) * own, 1.0);
  }
  *share = 1 - fmin(OF(p, D + 2 + tri(D, D)) / m.prior(k, 2), 1.0);
}

template <int D> DEVICE void share_priors(Model<D>& m) {
  double middle = 0, squares = 0, known = 0, levels = 0, trust = 0, spread = 0, size, gamma, share;
  int seen = 0;
#pragma unroll 1
  for (int k = 0; k < m.count; k++)
    if (OF(m.sums(k), D + 2 + tri(D, D)) > 0) {
      middle += OF(m.arm(k), D);
      seen++;
    }
  middle /= seen > 1 ? seen : 1;
#pragma unroll 1
  for (int k = 0; k < m.count; k++)
    if (OF(m.sums(k), D + 2 + tri(D, D)) > 0) {
      known_of<D>(m, k, &size, &gamma, &share);
      const double off = OF(m.arm(k), D) - middle;
      squares += size;
      known += gamma;
      levels += share * off;
      trust += share;
      spread += share * off * off;
    }
#pragma unroll 1
  for (int k = 0; k < m.count; k++) {
    const double* p = m.arm(k);
    known_of<D>(m, k, &size, &gamma, &share);
    double trace = size;
    EACH(a, 0, D) trace += OF(p, D + 2 + tri(a, a));
    if (!(OF(m.sums(k), D + 2 + tri(D, D)) > 0)) size = gamma = share = 0;
    const double rest = fmax(trust - share, 0.0), off = OF(p, D) - middle;
    const double mean = rest > 1e-6 ? (levels - share * off) / rest : -middle;
    const double typical = (squares - size + ARMS_LIKE * GUESS) / (known - gamma + ARMS_LIKE * D);
    m.prior(k, 0) = fmax((trace + OWN_SCALE * typical) / (D + OWN_SCALE), LEAST_PRIOR);
    m.prior(k, 1) = middle + mean;
    const double others = fmax(spread - share * off * off - rest * mean * mean, 0.0);
    const double guess =
        ARMS_LIKE * LEVEL_GUESS + OWN_LEVEL * ((off - mean) * (off - mean) + OF(p, D + 2 + tri(D, D)));
    m.prior(k, 2) = fmax((others + guess) / (fmax(rest - 1, 0.0) + ARMS_LIKE + OWN_LEVEL), LEAST_PRIOR);
  }
}

template <int D> DEVICE void maximise(Model<D>& m, double* S00, double* S11, const double* cross) {
  double r[D], pooled = 0, weights = 0;
  regress_states<D>(m, S00, r, S11, cross);
#pragma unroll 1
  for (int k = 0; k < m.count; k++) {
    double log_noise;
    weights += regress_arm<D>(m, k, S00, r, &log_noise);
    pooled += log_noise;
  }
  const double common = exp(pooled / fmax(weights, 1e-9));
#pragma unroll 1
  for (int k = 0; k < m.count; k++) {
    const double count = OF(m.sums(k), D + 2 + tri(D, D));
    const double squares = count > 1 ? OF(m.sums(k), D + 1) : fmin(OF(m.sums(k), D + 1), common);
    OF(m.arm(k), D + 1) = fmax((squares + LIKE_OTHERS * common) / (count + LIKE_OTHERS), LEAST_NOISE);
  }
  share_priors<D>(m);
}
